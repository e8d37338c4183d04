//! Findings as a page for people: one file with all its pictures, which needs no network.

use std::fmt::{self, Write};

use super::beside;
use super::claim::{Algorithms, Claim};
use super::judgement::{Measured, Verdict};
use super::provenance::{COMMIT, RunProvenance};
use super::report::{
    COLUMNS, Column, Finding, against_control, control_sentence, counts, headlines,
};
use anabranch_lab::escape;

/// Maximum number of runs that a column lists.
const MAX_RUNS: usize = 16;

const STYLE: &str = "
:root { color-scheme: light dark; --faint: #8883; --good: #00794f; --bad: #b34700;
  --unknown: #666; }
@media (prefers-color-scheme: dark) { :root { --good: #3ccf9b; --bad: #ff9b57;
  --unknown: #aaa; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 0 auto; padding: 1rem; }
h2 { margin-top: 3rem; overflow-wrap: anywhere; }
h3 { margin: 2.5rem 0 .25rem; border-top: 1px solid var(--faint); padding-top: 1rem; }
code { overflow-wrap: anywhere; font-size: .85em; }
.wide { overflow-x: auto; } .values td:first-child { min-width: 9rem; }
table { border-collapse: collapse; margin: .5rem 0; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; vertical-align: top;
  border-bottom: 1px solid var(--faint); }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
@media (max-width: 40rem) { .summary :is(th, td):is(:nth-child(2), :nth-child(4)) { display: none; }
  th, td { padding-right: .4rem; } .values td:first-child { min-width: 6rem; } }
.holds { color: var(--good); } .differs { color: var(--bad); } .unknown { color: var(--unknown); }
.verdict { font-weight: 600; white-space: nowrap; }
.where { opacity: .75; margin: 0; }
figure { margin: 1rem 0; overflow-x: auto; }
svg { width: 100%; min-width: 30rem; height: auto; display: block; }
ul { padding-left: 1.2rem; } li.broken { color: var(--bad); }
.counts { font-size: 1.2rem; }
";

/// Returns the findings as one HTML page. `program` names the program that measured them.
pub fn findings_html(findings: &[Finding], seed_count: u64, program: &str) -> String {
    let mut page = String::new();
    write_page(&mut page, findings, seed_count, program).expect("a String takes everything");
    page
}

fn write_page(
    page: &mut String,
    findings: &[Finding],
    seed_count: u64,
    program: &str,
) -> fmt::Result {
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Published results, reproduced</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>Published results, reproduced</h1>\n"
    )?;
    writeln!(
        page,
        "<p>Each figure, table and claim of the papers, beside what {} measures. Numbers are \
         medians over simulated runs that differ only in their seed, with the least and the \
         largest; lines are of the first seed. A claim takes more seeds, up to {seed_count}, while \
         its verdict is within a margin. It <b class=\"holds\">holds</b> if all that is expected \
         of it was found. <i>As published</i> is the paper's algorithm on a \
         <i>bare endpoint</i>, a sender such as papers describe, and beside it on our endpoint; \
         TCP has one endpoint. <i>Ours</i> is what this project has made of it, or an experiment \
         of its own. Claims that check the set-up, or that are true by construction of algorithm \
         or simulator, are counted apart.</p>",
        escape(program),
    )?;
    if let Some(commit) = COMMIT {
        writeln!(page, "<p>Commit: <code>{}</code></p>", escape(commit))?;
    }
    for (name, [holds, differs, unknown]) in counts(findings) {
        writeln!(
            page,
            "<p class=\"counts\">{name}: <span class=\"holds\">{holds} hold</span>, \
             <span class=\"differs\">{differs} differ</span>, \
             <span class=\"unknown\">{unknown} cannot be known</span></p>"
        )?;
    }
    if let Some(control) = against_control(findings) {
        writeln!(page, "<p>{}</p>", escape(&control_sentence(control)))?;
    }
    for (id, headline) in headlines(findings) {
        let (id, headline) = (escape(id), escape(headline));
        writeln!(page, "<p><a href=\"#{id}\">{id}</a>: {headline}</p>")?;
    }
    write_summary(page, findings)?;
    let mut paper = "";
    for finding in findings {
        if finding.claim.paper.key != paper {
            paper = finding.claim.paper.key;
            let citation = escape(finding.claim.paper.citation);
            writeln!(page, "<h2 id=\"{}\">{citation}</h2>", escape(paper))?;
        }
        write_finding(page, finding)?;
    }
    page.push_str("</body>\n</html>\n");
    Ok(())
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::Differs => "differs",
        Verdict::CannotBeKnown => "unknown",
    }
}

fn write_summary(page: &mut String, findings: &[Finding]) -> fmt::Result {
    page.push_str(
        "<div class=\"wide\"><table class=\"summary\">\n<tr><th>ID</th><th>Where</th><th>Claim</th>\
         <th>Kind</th><th>As published</th><th>On our endpoint</th><th>Ours</th></tr>\n",
    );
    for finding in findings {
        let id = escape(finding.claim.id);
        write!(
            page,
            "<tr><td><a href=\"#{id}\">{id}</a></td><td>{}</td><td>{}</td><td>{}</td>",
            escape(finding.claim.figure),
            escape(finding.claim.claim),
            finding.claim.basis.name(),
        )?;
        for (column, _) in COLUMNS {
            match finding.column(column) {
                Some(judged) => write!(
                    page,
                    "<td class=\"verdict {}\">{}</td>",
                    class(judged.verdict),
                    judged.verdict.name()
                )?,
                None => page.push_str("<td>–</td>"),
            }
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
    Ok(())
}

fn write_finding(page: &mut String, finding: &Finding) -> fmt::Result {
    let claim = finding.claim;
    let id = escape(claim.id);
    write!(
        page,
        "<section id=\"{id}\">\n<h3>{id}: {}</h3>\n",
        escape(claim.figure)
    )?;
    write_claim(page, claim)?;
    if let Some(others) = &finding.others {
        let text = escape(&others.text());
        writeln!(page, "<p class=\"where\">Others that pass: {text}.</p>")?;
    }
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
    writeln!(
        page,
        "<p class=\"where\">Kind: {}. Again: <code>anabranch reproduce {}</code></p>",
        claim.basis.name(),
        escape(claim.id)
    )
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
        writeln!(page, "<p class=\"where\">Seeds: {}.</p>", judged.seed_count)?;
    }
    if let Some(why) = finding.why(column) {
        writeln!(page, "<p><b>Why:</b> {}</p>", escape(why))?;
    }
    for chart in judgement
        .charts
        .iter()
        .chain(&beside::charts(&judgement.values))
    {
        writeln!(page, "<figure>{}</figure>", chart.svg())?;
    }
    if let Some(sentence) = judgement.without_chance.sentence() {
        writeln!(page, "<p class=\"where\">{}.</p>", escape(&sentence))?;
    }
    write_values(page, &judgement.values)?;
    write_runs(page, &judged.runs)?;
    if !judgement.expects.is_empty() {
        page.push_str("<details><summary>Expectations</summary><ul>\n");
        for expect in &judgement.expects {
            let (class, mark) = match expect.is_met {
                true => ("met", "found"),
                false => ("broken", "not found"),
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
        let note = match run.is_exact {
            true => "",
            false => ", changed as the column says",
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
            "<p class=\"where\">The JSON form lists {} more.</p>",
            count - MAX_RUNS
        )?;
    }
    page.push_str("</details>\n");
    Ok(())
}

fn write_values(page: &mut String, values: &[Measured]) -> fmt::Result {
    if values.is_empty() {
        return Ok(());
    }
    page.push_str(
        "<div class=\"wide\"><table class=\"values\">\n<tr><th></th><th class=\"number\">Paper</th>\
         <th class=\"number\">Measured: median</th><th class=\"number\">min</th>\
         <th class=\"number\">max</th></tr>\n",
    );
    for value in values {
        let cell = |number: Option<f64>| {
            let number = number.map(|number| escape(&value.write(number)));
            number.unwrap_or_else(|| "–".to_owned())
        };
        let spread = value.samples.spread();
        writeln!(
            page,
            "<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
            escape(&value.name),
            cell(value.published),
            cell(spread.map(|spread| spread.median)),
            cell(spread.map(|spread| spread.min)),
            cell(spread.map(|spread| spread.max))
        )?;
    }
    page.push_str("</table></div>\n");
    Ok(())
}
