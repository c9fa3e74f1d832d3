//! Plugins, namespaces of the loader, and programs that export functions of libc's names.

mod harness;

use harness::{program_file, same, SEGMENT};

#[test]
fn plugins_use_shared_memory_however_they_are_loaded() {
    let plugin = program_file("hostile_plugin");
    same(|house| house.program("hostile_dlopen").number(SEGMENT).arg(&plugin));
}

#[test]
fn functions_that_a_program_exports_are_for_itself() {
    same(|house| house.program("hostile_exports").number(SEGMENT));
}
