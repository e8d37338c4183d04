#!/usr/bin/env python3
"""Writes the tables of docs/results*.md and docs/frontier.md from the output of the commands; `make results`
and `make frontier` run them.

    scripts/results.py FOLDER PAGE...

FOLDER holds findings*.json and report*.html (`anabranch-lab reproduce --format json`, of all papers or of some in each), rmcat.json and wireless.json
(`anabranch-lab compare --format json`), contest.txt (`anabranch-lab contest`), frontier.json (`anabranch-lab frontier
--format json`); a missing file leaves its tables unchanged. A table stands between `<!-- begin NAME -->` and
`<!-- end NAME -->` on one of the pages; the text around it is written by hand. frontier-points.csv is written beside
the page of the frontier.
"""

import csv
import json
import re
import sys
from pathlib import Path

VERDICTS = ["holds", "differs", "cannot be known"]
# For each unit of the findings: the unit that is shown, the factor and digits.
UNITS = {
    "ratio": (" %", 100, 2), "ms": (" ms", 1, 0), "bits_per_second": (" kbit/s", 1e-3, 0),
    "bytes": (" kB", 1e-3, 1), "number": ("", 1, 3),
}
# The pictures of the document: the file, the claim, and the index of its picture of ours.
PICTURES = [("results-fig-3.svg", "S0-F3"), ("results-schedulers.svg", "own-aim")]


def table(heading, rows):
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def number(value, digits):
    if digits == 0 or value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits > 2 else text


def shown(value, spread=True):
    """Returns median and range of a value of the findings, with unit."""
    if value is None or value["ours"] is None:
        return "–"
    unit, factor, digits = UNITS[value["unit"]]
    low, middle, high = (value["ours"][key] * factor for key in ("min", "median", "max"))
    text = number(middle, digits)
    if spread and number(low, digits) != number(high, digits):
        text += f" ({number(low, digits)}–{number(high, digits)})"
    return text + unit


def of_paper(value):
    if value is None or value["paper_value"] is None:
        return "–"
    unit, factor, digits = UNITS[value["unit"]]
    return number(value["paper_value"] * factor, digits) + unit


def columns(finding):
    """Returns the columns `as published`, `as published, on our endpoint` and `ours`; None: empty."""
    if finding["paper"] == "own":
        return None, None, finding
    on_ours = finding["on_our_endpoint"]
    if finding["as_published"]:
        return finding["as_published"], on_ours, finding
    return finding, on_ours, None


def named(column, name):
    """Returns the value of that name."""
    values = column["values"] if column else []
    return next((value for value in values if value["name"] == name), None)


def counted(verdicts):
    verdicts = list(verdicts)
    if not verdicts:
        return "–"
    return " / ".join(str(verdicts.count(verdict)) for verdict in VERDICTS)


# Papers in the order of their tables.
PAPERS = ["zhang-delay-bbr", "kondo", "grieco-arc", "matsufuji", "ns2", "ns3", "own"]


def merged(documents):
    """Returns the findings of several runs of one program."""
    fingerprints = {document["fingerprint"] for document in documents}
    if len(fingerprints) != 1:
        sys.exit(f"the findings are of different programs: {', '.join(sorted(fingerprints))}")
    findings = [finding for document in documents for finding in document["findings"]]
    return {
        "fingerprint": fingerprints.pop(),
        "seed_count": max(document["seed_count"] for document in documents),
        "findings": sorted(findings, key=lambda one: PAPERS.index(one["paper"])),
    }


def seeds(document):
    """The most seeds of a claim, and of papers of which no measured claim took as many."""
    most = {}
    for finding in document["findings"]:
        if finding["basis"] == "measured":
            most[finding["paper"]] = max(most.get(finding["paper"], 0), finding["seed_count"])
    fewer = [f"of `{paper}` {count}" for paper, count in most.items() if count < document["seed_count"]]
    note = f"; {', '.join(fewer)}" if fewer else ""
    return (
        f"Seeds: up to {document['seed_count']}{note}.\n"
        f"Fingerprint of the traces and claims: `{document['fingerprint']}`.\n\n"
    )


def counts(findings):
    rows = []
    papers = list(dict.fromkeys(finding["paper"] for finding in findings))
    for paper in papers:
        of = [finding for finding in findings if finding["paper"] == paper]
        measured = [columns(finding) for finding in of if finding["basis"] == "measured"]
        cells = []
        for at in (0, 1, 2):
            # Without media there is one endpoint.
            verdicts = [(row[at] or (row[0] if at == 1 else None)) for row in measured]
            cells.append(counted(column["verdict"] for column in verdicts if column))
        if not any(row[1] for row in measured):
            cells[1] = "–"
        for basis in ("set-up", "by construction"):
            cells.append(counted(finding["verdict"] for finding in of if finding["basis"] == basis))
        cells.insert(3, shared(of))
        rows.append([f"`{paper}`", *cells])
    heading = [
        "", "measured, as published", "the same, on our endpoint", "measured, ours",
        "hold for half of the others too", "set-up", "by construction",
    ]
    return table(heading, rows)


def shared(findings):
    """Of the claims that hold and in which others were tried, those that half of them pass."""
    tried = [one for one in findings if one["verdict"] == "holds" and one["others"]]
    if not tried:
        return "–"
    common = [one for one in tried if 2 * len(one["others"]["passed"]) >= len(one["others"]["tried"])]
    return f"{len(common)} of {len(tried)}"


def ablations(findings):
    """Returns which explanations of claims that differ an ablation tests."""
    def differs(finding):
        return any(column and column["verdict"] == "differs" for column in columns(finding))

    kinds = {"tested by an ablation": [], "not tested": [], "not explained": []}
    for finding in findings:
        if finding["basis"] == "measured" and differs(finding):
            why = finding["why"] or ""
            if not why:
                kinds["not explained"].append(finding["id"])
            elif "Ablation: " in why:
                kinds["tested by an ablation"].append(finding["id"])
            else:
                kinds["not tested"].append(finding["id"])
    return "\n".join(f"- *{kind}*: {', '.join(ids) or 'none'}" for kind, ids in kinds.items())


def headlines(findings):
    """What single claims add to the counts."""
    return "".join(f"\n\n{one['id']}: {one['headline']}" for one in findings if one.get("headline"))


def first(column):
    """Returns verdict and first number."""
    if column is None:
        return "–"
    return f"{column['verdict']}: {shown((column['values'] or [None])[0])}"


def others(finding):
    if finding["others"] is None:
        return "–"
    passed, tried = finding["others"]["passed"], finding["others"]["tried"]
    return f"{', '.join(f'`{name}`' for name in passed)} ({len(passed)}/{len(tried)})" if passed else "none"


def verdicts(findings):
    """Returns every measured claim."""
    rows, control = [], []
    for finding in findings:
        if finding["basis"] != "measured":
            continue
        published, on_ours, ours = (first(column) for column in columns(finding))
        if published.startswith("differs") and ours.startswith("holds"):
            control.append(finding["id"])
        value = (finding["values"] or [None])[0]
        rows.append([
            finding["id"], finding["figure"], value["name"] if value else "", of_paper(value), published,
            "=" if on_ours == published else on_ours, ours, others(finding),
        ])
    heading = [
        "claim", "where", "first number", "paper", "as published, bare endpoint", "as published, our endpoint",
        "ours", "others that pass",
    ]
    text = table(heading, rows)
    if control:
        text += "\n\nOnly our form holds, not the published one: " + ", ".join(control) + "."
    return text


def table_2(findings):
    finding = next((one for one in findings if one["id"] == "S0-T2"), None)
    if finding is None or not finding["as_published"]:
        return None
    published, _, ours = columns(finding)
    rows = []
    for what in ("delay", "loss"):
        for case in (1, 4, 7):
            names = [f"case {case}, {who}: {what}" for who in ("Delay-BBR", "GCC", "WebRTC-BBR")]
            delay_bbr, gcc, webrtc = names
            cells = [of_paper(named(ours, delay_bbr))]
            cells += [shown(named(column, delay_bbr)) for column in (published, ours)]
            for name in (gcc, webrtc):
                cells += [of_paper(named(ours, name)), shown(named(ours, name))]
            rows.append([f"{what}, case {case}", *cells])
    heading = [
        "", "Delay-BBR: paper", "as published", "ours (`live-bbr`)", "GCC: paper", "here",
        "WebRTC-BBR: paper", "here",
    ]
    return table(heading, rows)


def own(findings):
    rows = []
    for finding in findings:
        if finding["paper"] != "own" or finding["figure"] == "aim":
            continue
        cells = []
        for what in ("frames not decodable in time", "longest gap"):
            for label in ("min-cost", "anabranch"):
                cells.append(shown(named(finding, f"{finding['figure']}, {label}: {what}")))
        rows.append([finding["figure"], *cells, finding["verdict"]])
    heading = [
        "scenario", "not decodable in time: `min-cost`", "`anabranch`", "longest gap: `min-cost`",
        "`anabranch`", "the file's promises",
    ]
    return table(heading, rows) if rows else None


RMCAT = (("utilisation", 100, 0), ("delay-p95", 1, 0), ("loss", 100, 1))
WIRELESS = (("frame-delay-all-p95", 1, 0), ("delay-p95", 1, 0), ("goodput", 1e-6, 2))


def cases(comparison, shown):
    """Returns these metrics, with factor and digits, of each case and controller."""
    cells, points = {}, {}
    for row in comparison["rows"]:
        # The first point of a sweep, whose points have their settings in parentheses.
        scenario = row["scenario"].split(" (")[0]
        if points.setdefault(scenario, row["scenario"]) != row["scenario"]:
            continue
        of = cells.setdefault(scenario, {}).setdefault(row["metric"], [])
        of.append([cell["mean"] for cell in row["cells"]])

    def cell(metrics, at):
        parts = []
        for metric, factor, digits in shown:
            values = [row[at] for row in metrics.get(metric, []) if row[at] is not None]
            parts.append("/".join(f"{value * factor:.{digits}f}" for value in values) or "–")
        return ", ".join(parts)

    names = [f"`{column['controller']}`" for column in comparison["columns"]]
    rows = [
        [scenario, *(cell(metrics, at) for at in range(len(names)))]
        for scenario, metrics in cells.items()
    ]
    return f"Seeds: {comparison['seed_count']}.\n\n" + table(["case", *names], rows)


def point_name(text):
    """Returns the name of a point: the scenario's, and the values of its sweep, each once."""
    scenario, _, settings = text.partition(" (")
    scenario = scenario.removeprefix("rmcat/").removeprefix("rmcat-wireless/")
    parts = re.split(r", (?=[\w-]+(?:\.[\w-]+)+=)", settings.removesuffix(")"))
    values = [part.partition("=")[2] for part in parts]
    # Traces go by their names, schedules by the fact that there is one.
    values = ["changes" if value.startswith("[{") else value.split("/")[-1] for value in values]
    values = [value.removesuffix(".trace") for value in values if value not in ("", "[]")]
    return ", ".join([scenario, *dict.fromkeys(values)])


POINT_COLUMNS = [
    "family", "point", "controller", "frame_delay_p95_ms", "packet_delay_p95_ms", "goodput_percent", "use_percent",
    "loss_percent", "share_beside_tcp_percent", "jain_index", "is_on_frontier",
]


def frontier_points(document):
    """Returns a row for each point and controller."""
    def digits(value, factor, count):
        return "" if value is None else f"{factor * value:.{count}f}"

    for point in document["points"]:
        for controller, cell in zip(document["controllers"], point["cells"]):
            is_uneven = cell["jain_index"] is not None and cell["jain_index"] < 0.995
            shares = is_uneven and cell["share_beside_streams"] is None
            yield [
                point["family"], point_name(point["scenario"]), controller["controller"],
                digits(cell["frame_delay_p95_ms"], 1, 0), digits(cell["packet_delay_p95_ms"], 1, 0),
                digits(cell["goodput_ratio"], 100, 0), digits(cell["utilisation"], 100, 0),
                digits(cell["loss_ratio"], 100, 1), digits(cell["share_beside_streams"], 100, 0),
                digits(cell["jain_index"], 1, 2) if shares else "",
                "yes" if cell["is_on_frontier"] else "no",
            ]


def write_points(document, path):
    """Writes the table of all points."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(POINT_COLUMNS)
        rows.writerows(frontier_points(document))


def frontier(document):
    """Returns each controller's counts and medians."""
    def per_cent(value, digits=0):
        return "–" if value is None else f"{100 * value:.{digits}f}"

    rows = [
        [
            f"`{one['controller']}`",
            f"{one['on_frontier']} of {one['point_count']}", one["on_packet_frontier"],
            *(f"{one[key]:.0f}" for key in ("frame_delay_p95_ms", "packet_delay_p95_ms")),
            per_cent(one["goodput_ratio"]), per_cent(one["utilisation"]),
            per_cent(one["most_loss_ratio"], 1), per_cent(one["share_beside_streams"]),
        ]
        for one in document["controllers"]
    ]
    heading = [
        "controller", "on the frontier", "by packets", "frames, ms", "packets, ms", "goodput, %",
        "use, %", "most loss, %", "beside TCP, %",
    ]
    return f"Seeds: {document['seed_count']}.\n\n" + table(heading, rows)


def pictures(report, folder):
    """Takes pictures out of the report: each claim's first one of the last column."""
    for name, claim in PICTURES:
        section = re.search(rf'<section id="{claim}"[^>]*>.*?</section>', report, re.S)
        if section is None:
            continue
        drawn = re.findall(r"<h4>.*?<figure[^>]*>(<svg.*?</svg>)", section[0], re.S)
        if not drawn:
            sys.exit(f"the report has no picture of {claim}")
        (folder / name).write_text(drawn[-1] + "\n")


def main(folder, *names):
    folder, pages = Path(folder), [Path(name) for name in names]
    blocks = {}
    documents = [json.loads(file.read_text()) for file in sorted(folder.glob("findings*.json"))]
    if documents:
        document = merged(documents)
        findings = document["findings"]
        blocks["claims"] = seeds(document) + counts(findings) + headlines(findings)
        blocks["verdicts"] = verdicts(findings)
        blocks["ablations"] = ablations(findings)
        blocks["table-2"] = table_2(findings)
        blocks["own"] = own(findings)
    for report in sorted(folder.glob("report*.html")):
        pictures(report.read_text(), pages[0].parent)
    if (folder / "rmcat.json").exists():
        blocks["rmcat"] = cases(json.loads((folder / "rmcat.json").read_text()), RMCAT)
    if (folder / "wireless.json").exists():
        blocks["wireless"] = cases(json.loads((folder / "wireless.json").read_text()), WIRELESS)
    if (folder / "frontier.json").exists():
        document = json.loads((folder / "frontier.json").read_text())
        blocks["frontier"] = frontier(document)
        write_points(document, pages[0].parent / "frontier-points.csv")
    if (folder / "contest.txt").exists():
        blocks["contest"] = "```\n" + (folder / "contest.txt").read_text().rstrip() + "\n```"
    texts = {page: page.read_text() for page in pages}
    for name, block in blocks.items():
        if block is None:
            continue
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.S)
        holding = [page for page, text in texts.items() if begin in text]
        if len(holding) != 1 or texts[holding[0]].count(begin) != 1:
            sys.exit(f"{', '.join(names)}: expected one block {name!r}")
        page = holding[0]
        texts[page] = pattern.sub(lambda _: f"{begin}\n{block}\n{end}", texts[page])
    for page, text in texts.items():
        page.write_text(text)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
