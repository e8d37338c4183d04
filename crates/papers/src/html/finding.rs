//! A claim's section of the report: its words, its runs, and its verdicts with pictures.

use std::fmt::{self, Write};

use super::super::beside;
use super::super::case::Algorithms;
use super::super::claim::Claim;
use super::super::finding::{Column, Finding};
use super::super::judgement::Measured;
use super::super::provenance::RunProvenance;
use super::super::report::COLUMNS;
use super::{PageOptions, class};
use anabranch_lab::escape;

/// Maximum number of runs that a column lists.
const MAX_RUNS: usize = 16;

pub(super) fn write_finding(
    page: &mut String,
    finding: &Finding,
    options: &PageOptions<'_>,
) -> fmt::Result {
    let claim = finding.claim;
    let id = escape(claim.id);
    write!(
        page,
        "<section id=\"{id}\" class=\"panel\">\n<h3>{id}: {}</h3>\n",
        escape(claim.figure)
    )?;
    write_claim(page, claim)?;
    write_source(page, finding, options)?;
    for (column, name) in COLUMNS {
        if finding.column(column).is_some() {
            write_column(page, finding, column, name)?;
        }
    }
    page.push_str("</section>\n");
    Ok(())
}

/// Writes the paper's sentence, our criterion, and the grounds on which it is judged.
fn write_claim(page: &mut String, claim: &Claim) -> fmt::Result {
    let whose = match claim.paper.algorithms {
        Algorithms::Own => "We claim",
        _ => "The paper",
    };
    writeln!(page, "<p><b>{whose}:</b> {}</p>", escape(claim.claim))?;
    if !claim.criterion.is_empty() {
        writeln!(
            page,
            "<p><b>Our criterion:</b> {}</p>",
            escape(claim.criterion)
        )?;
    }
    Ok(())
}

/// Writes the claim's kind, its command and its scenarios.
fn write_source(page: &mut String, finding: &Finding, options: &PageOptions<'_>) -> fmt::Result {
    fn row(page: &mut String, name: &str, content: &str) -> Result<(), fmt::Error> {
        writeln!(page, "<dt>{name}</dt><dd>{content}</dd>")
    }

    let claim = finding.claim;
    page.push_str("<dl>\n");
    row(page, "Kind", claim.basis.name())?;
    let command = format!("anabranch-lab reproduce {}", claim.id);
    row(
        page,
        "Command",
        &format!("<code>{}</code>", escape(&command)),
    )?;
    let files = claim.files();
    let scenarios: Vec<String> = files.iter().map(|file| scenario(file, options)).collect();
    if !scenarios.is_empty() {
        row(page, "Scenario", &scenarios.join("<br>"))?;
    }
    if let Some(others) = &finding.others {
        row(page, "Others that pass", &escape(&others.text()))?;
    }
    page.push_str("</dl>\n");
    Ok(())
}

/// Returns a scenario's file, and the playground's link to it.
fn scenario(file: &str, options: &PageOptions<'_>) -> String {
    let mut text = format!("<code>scenarios/{}</code>", escape(file));
    if let (Some(site), Some(name)) = (options.site, file.strip_suffix(".toml")) {
        let (site, name) = (escape(site.trim_end_matches('/')), escape(name));
        text.push_str(&format!(
            " <a href=\"{site}/playground/#scenario={name}\">open in the playground</a>"
        ));
    }
    text
}

fn write_column(page: &mut String, finding: &Finding, column: Column, name: &str) -> fmt::Result {
    let Some(judged) = finding.column(column) else {
        return Ok(());
    };
    let judgement = &judged.judgement;
    writeln!(
        page,
        "<h4>{name}: <span class=\"verdict {}\">{}</span></h4>",
        class(judged.verdict),
        judged.verdict.name()
    )?;
    if judged.seed_count > 0 {
        writeln!(page, "<p class=\"muted\">Seeds: {}.</p>", judged.seed_count)?;
    }
    if let Some(why) = finding.why(column) {
        writeln!(page, "<p><b>Why:</b> {}</p>", escape(&why))?;
    }
    for chart in judgement
        .charts
        .iter()
        .chain(&beside::charts(&judgement.values))
    {
        let class = if chart.fits_phones() {
            ""
        } else {
            " class=\"wide\""
        };
        writeln!(page, "<figure{class}>{}</figure>", chart.narrow_svg())?;
    }
    if let Some(sentence) = judgement.without_chance.sentence() {
        writeln!(page, "<p class=\"muted\">{}.</p>", escape(&sentence))?;
    }
    write_values(page, &judgement.values)?;
    write_runs(page, &judged.runs)?;
    if !judgement.expects.is_empty() {
        page.push_str("<details><summary>Expectations</summary><ul>\n");
        for expect in &judgement.expects {
            let (class, mark) = if expect.is_met {
                ("met", "found")
            } else {
                ("broken", "not found")
            };
            let text = escape(&expect.text);
            writeln!(page, "<li class=\"{class}\">{text}: {mark}</li>")?;
        }
        page.push_str("</ul></details>\n");
    }
    Ok(())
}

/// Writes the runs of a column: commands that repeat them, and the hashes that these print.
fn write_runs(page: &mut String, runs: &[RunProvenance]) -> fmt::Result {
    if runs.is_empty() {
        return Ok(());
    }
    let count = runs.len();
    writeln!(
        page,
        "<details><summary>Runs: {count}</summary><ul class=\"runs\">"
    )?;
    for run in runs.iter().take(MAX_RUNS) {
        let note = if run.is_exact {
            ""
        } else {
            ", changed as the column says"
        };
        writeln!(
            page,
            "<li>{}: <code>{}</code>{note}; trace hash <code>{}</code></li>",
            escape(&run.case),
            escape(&run.command),
            run.trace_hash
        )?;
    }
    page.push_str("</ul>\n");
    if count > MAX_RUNS {
        writeln!(
            page,
            "<p class=\"muted\">The JSON form lists {} more.</p>",
            count - MAX_RUNS
        )?;
    }
    page.push_str("</details>\n");
    Ok(())
}

fn write_values(page: &mut String, values: &[Measured]) -> fmt::Result {
    fn cell(number: Option<f64>, value: &Measured) -> String {
        let number = number.map(|number| escape(&value.write(number)));
        number.unwrap_or_else(|| "–".to_owned())
    }

    if values.is_empty() {
        return Ok(());
    }
    page.push_str(
        "<div class=\"wide\"><table class=\"values\">\n<tr><th></th><th class=\"number\">Paper</th>\
         <th class=\"number\">Measured: median</th><th class=\"number\">min</th>\
         <th class=\"number\">max</th></tr>\n",
    );
    for value in values {
        let spread = value.samples.spread();
        writeln!(
            page,
            "<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
            escape(&value.name),
            cell(value.published, value),
            cell(spread.map(|spread| spread.median), value),
            cell(spread.map(|spread| spread.min), value),
            cell(spread.map(|spread| spread.max), value)
        )?;
    }
    page.push_str("</table></div>\n");
    Ok(())
}
