//! `shmguard docs`: man pages, shell completions and docs/commands.md, all from the one table of the command line.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap_complete::Shell;

use crate::cli;

/// Writes man pages, completions and docs/commands.md.
///
/// Into DIR go commands.md, man/*.1 and completions/*. The repository keeps the first two below docs; a test compares them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  shmguard docs docs
  shmguard docs --completions bash > /etc/bash_completion.d/shmguard")]
pub struct Args {
    /// Where everything is written.
    #[arg(value_name = "DIR", required_unless_present = "completions")]
    directory: Option<PathBuf>,
    /// Print the completions for this shell instead.
    #[arg(long, value_name = "SHELL")]
    completions: Option<Shell>,
}

/// Writes or prints.
///
/// # Errors
/// A file or standard output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(shell) = args.completions {
        std::io::stdout().write_all(&completions(shell))?;
    }
    if let Some(directory) = &args.directory {
        write(directory, "commands.md", commands().as_bytes())?;
        for (name, page) in man_pages()? {
            write(&directory.join("man"), &name, &page)?;
        }
        for (shell, name) in [(Shell::Bash, "shmguard.bash"), (Shell::Zsh, "_shmguard"), (Shell::Fish, "shmguard.fish")]
        {
            write(&directory.join("completions"), name, &completions(shell))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write(directory: &Path, name: &str, content: &[u8]) -> anyhow::Result<()> {
    let path = directory.join(name);
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(&path, content))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut without_hidden(), "shmguard", &mut script);
    script
}

/// The table without the subcommands that are for packagers.
fn without_hidden() -> clap::Command {
    let whole = cli::command();
    let visible: Vec<clap::Command> = whole.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned().collect();
    let mut command = clap::Command::new("shmguard").version(env!("CARGO_PKG_VERSION"));
    if let Some(about) = whole.get_about() {
        command = command.about(about.clone());
    }
    if let Some(after) = whole.get_after_help() {
        command = command.after_help(after.clone());
    }
    command.subcommand_required(true).disable_help_subcommand(true).subcommands(visible)
}

/// shmguard.1 and one page for each subcommand.
fn man_pages() -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut whole = without_hidden();
    whole.build();
    let mut pages = Vec::new();
    let names = whole.get_subcommands().map(|sub| sub.get_name().to_owned()).collect::<Vec<_>>();
    let page = |command: clap::Command, title: &str| -> anyhow::Result<Vec<u8>> {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).title(title).section("1").manual("shmguard").date("").render(&mut page)?;
        Ok(page)
    };
    for name in names {
        let Some(sub) = whole.find_subcommand(&name) else { continue };
        let title = format!("shmguard-{name}");
        // The synopsis says `shmguard run`, the name `shmguard-run`, as git does.
        let command = sub.clone().name(title.clone());
        pages.push((format!("{title}.1"), page(command, &title)?));
    }
    pages.push(("shmguard.1".into(), page(whole, "shmguard")?));
    Ok(pages)
}

/// docs/commands.md: the help texts, as they are printed in 80 columns.
fn commands() -> String {
    let mut whole = without_hidden().term_width(80);
    whole.build();
    let mut text = String::from(
        "# Commands\n\nThe help of each subcommand, as `shmguard SUBCOMMAND --help` prints it. Exit codes: 0 well; 1 it did not\n\
         work, or what the subcommand says; 2 wrong usage. Colour only on a terminal, and not when NO_COLOR is set.\n\n\
         This page is made by `shmguard docs docs`; a test compares the two.\n",
    );
    let mut add = |title: &str, help: &str| {
        let help: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
        let _ = write!(text, "\n## {title}\n\n```text\n{}\n```\n", help.join("\n"));
    };
    add("shmguard", &whole.render_long_help().to_string());
    for sub in whole.get_subcommands_mut() {
        let title = format!("shmguard {}", sub.get_name());
        add(&title, &sub.clone().term_width(80).render_long_help().to_string());
    }
    text
}
