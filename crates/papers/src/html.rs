//! Findings as a page for people: one file with all its pictures, which needs no network.

use std::fmt::{self, Write};

mod finding;

use super::finding::Finding;
use super::judgement::Verdict;
use super::provenance::COMMIT;
use super::report::{COLUMNS, against_control, control_sentence, counts, headlines};
use anabranch_lab::escape;

use finding::write_finding;

/// Appearance that all pages of the project share.
const SHARED_STYLE: &str = include_str!("../../../web/style.css");
/// Appearance of the report's own parts.
const STYLE: &str = include_str!("html/report.css");

/// Options of the report.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageOptions<'a> {
    /// Maximum number of seeds of a claim.
    pub seed_count: u64,
    /// Name of the program that measured the findings.
    pub program: &'a str,
    /// Address of the site of the documents, relative to the report or absolute. Its playground
    /// opens each claim's scenarios; without it there are no such links.
    pub site: Option<&'a str>,
}

/// Returns the findings as one HTML page.
pub fn findings_html(findings: &[Finding], options: &PageOptions<'_>) -> String {
    let mut page = String::new();
    write_page(&mut page, findings, options).expect("a String takes everything");
    page
}

fn write_page(page: &mut String, findings: &[Finding], options: &PageOptions<'_>) -> fmt::Result {
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Published results, reproduced</title>\n<style>\n{SHARED_STYLE}{STYLE}</style>\n\
         </head>\n<body>\n<h1>Published results, reproduced</h1>\n"
    )?;
    writeln!(
        page,
        "<p>Each figure, table and claim of the papers, beside the measurements of {}. Numbers are \
         medians over simulated runs that differ only in their seed, with the least and the \
         largest; lines are of the first seed. A claim takes more seeds, up to {}, while \
         its verdict is within a margin. It <b class=\"holds\">holds</b> if all that is expected \
         of it was found. <i>As published</i> is the paper's algorithm on a \
         <i>bare endpoint</i>, a sender such as papers describe, and beside it on our endpoint; \
         TCP has one endpoint. <i>Ours</i> is the version of this project, or an experiment \
         of its own. Claims that check the set-up, or that are true by construction of algorithm \
         or simulator, are counted apart.</p>",
        escape(options.program),
        options.seed_count,
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
    let papers: Vec<&[Finding]> = findings
        .chunk_by(|one, next| one.claim.paper.key == next.claim.paper.key)
        .collect();
    page.push_str("<h2>Papers</h2>\n<ul>\n");
    for of_paper in &papers {
        let paper = of_paper[0].claim.paper;
        let (key, citation) = (escape(paper.key), escape(paper.citation));
        writeln!(page, "<li><a href=\"#{key}\">{citation}</a></li>")?;
    }
    page.push_str("</ul>\n");
    for of_paper in papers {
        let paper = of_paper[0].claim.paper;
        let (key, citation) = (escape(paper.key), escape(paper.citation));
        writeln!(page, "<h2 id=\"{key}\">{citation}</h2>")?;
        let command = format!("anabranch-lab reproduce {}", paper.key);
        writeln!(page, "<p>All of it: <code>{}</code></p>", escape(&command))?;
        write_summary(page, of_paper)?;
        for finding in of_paper {
            write_finding(page, finding, options)?;
        }
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
