//! OpenMetrics text 1.0: families with their samples together, an end mark.

use std::fmt::Write as _;

/// A page of metric families, in the order of their first mention.
#[derive(Default)]
pub struct Page {
    families: Vec<Family>,
}

/// One metric with all its samples.
pub struct Family {
    name: String,
    kind: &'static str,
    help: String,
    unit: Option<&'static str>,
    samples: Vec<(String, u64)>,
}

impl Page {
    /// An empty page.
    pub fn new() -> Page {
        Page::default()
    }

    /// A value that goes up and down. A unit has to be the end of the name.
    pub fn gauge(&mut self, name: &str, help: &str, unit: Option<&'static str>) -> &mut Family {
        self.family(name, "gauge", help, unit)
    }

    /// A sum that only grows (and may begin anew). The name comes without `_total`.
    pub fn counter(&mut self, name: &str, help: &str, unit: Option<&'static str>) -> &mut Family {
        self.family(name, "counter", help, unit)
    }

    fn family(&mut self, name: &str, kind: &'static str, help: &str, unit: Option<&'static str>) -> &mut Family {
        debug_assert!(unit.is_none_or(|unit| name.ends_with(unit)), "{name}");
        let place = self.families.iter().position(|family| family.name == name).unwrap_or_else(|| {
            let family = Family { name: name.into(), kind, help: help.into(), unit, samples: Vec::new() };
            self.families.push(family);
            self.families.len() - 1
        });
        &mut self.families[place]
    }

    /// The text.
    pub fn finish(self) -> String {
        let mut text = String::new();
        for family in &self.families {
            let Family { name, kind, help, .. } = family;
            let _ = writeln!(text, "# TYPE {name} {kind}");
            if let Some(unit) = family.unit {
                let _ = writeln!(text, "# UNIT {name} {unit}");
            }
            let _ = writeln!(text, "# HELP {name} {}", escape(help));
            let suffix = if *kind == "counter" { "_total" } else { "" };
            for (labels, value) in &family.samples {
                let _ = writeln!(text, "{name}{suffix}{labels} {value}");
            }
        }
        text.push_str("# EOF\n");
        text
    }
}

impl Family {
    /// Adds a sample.
    pub fn add(&mut self, labels: &[(&str, &str)], value: u64) {
        let pairs: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
        let labels = if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) };
        self.samples.push((labels, value));
    }
}

/// Backslash, quote and line end, as label values want them.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_family_stand_together() {
        let mut page = Page::new();
        page.gauge("a_bytes", "A.", Some("bytes")).add(&[("path", "x\"\\\n")], 1);
        page.counter("b", "B.", None).add(&[], 2);
        page.gauge("a_bytes", "A.", Some("bytes")).add(&[("path", "y")], 3);
        assert_eq!(
            page.finish(),
            "# TYPE a_bytes gauge\n# UNIT a_bytes bytes\n# HELP a_bytes A.\na_bytes{path=\"x\\\"\\\\\\n\"} 1\n\
             a_bytes{path=\"y\"} 3\n# TYPE b counter\n# HELP b B.\nb_total 2\n# EOF\n"
        );
    }
}
