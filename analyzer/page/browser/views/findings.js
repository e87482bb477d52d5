// SPDX-License-Identifier: Apache-2.0
//
// What is wrong, the worst first, each with a way to the view that shows it; and what job this was.
"use strict";

{
    /* The view that shows what a finding speaks of, by words of its code. */
    const proofs = [
        [/hang|deadlock|desync|dead_rank|mismatch|unmatched/, "hang"],
        [/link|bandwidth/, "links"],
        [/straggler|slow|rotat|imbalance|uneven|host/, "ranks"],
        [/interval|communication|receive|collective|step/, "steps"],
        [/lost|losses|incomplete|missing|uncollected|partial|clock|coverage/, "coverage"],
    ];

    const proofOf = function (finding) {
        const found = proofs.find(([words]) => words.test(finding.code));
        return found && commtap.views.some((view) => view.id === found[1]) ? found[1] : null;
    };

    const facts = function (report) {
        const job = report.job;
        const format = commtap.format;
        const ranks =
            job.ranks_expected !== null && job.ranks_expected !== job.ranks_seen
                ? job.ranks_seen + " of " + job.ranks_expected
                : job.ranks_seen;
        const libraries = [job.mpi_library, job.nccl_library]
            .filter((library) => library)
            .map((library) => library.name + (library.version ? " " + library.version : ""));
        return [
            ["Command", format.text(job.command)],
            ["Ranks", ranks + " on " + format.number(job.hosts, "host")],
            ["Time", format.seconds(job.wall_seconds)],
            ["Started", format.text(job.started)],
            ["Libraries", format.text(libraries.join(", "))],
            ["Events", format.count(job.events) + (job.events_lost ? ", " + format.count(job.events_lost) + " overwritten" : "")],
            ["Run", format.text(job.id)],
            ["User", format.text(job.user)],
            ["Directory", format.text(job.working_directory)],
        ];
    };

    const draw = function (node) {
        const report = commtap.block("report");
        const list = commtap.element("ol", {class: "findings"});
        report.findings.forEach((finding) => {
            const proof = proofOf(finding);
            list.append(
                commtap.element(
                    "li",
                    {class: finding.severity},
                    commtap.element("strong", null, finding.severity === "info" ? "note" : finding.severity),
                    " ",
                    commtap.linked(finding.text),
                    " ",
                    proof ? commtap.element("a", {href: "#" + proof}, "show it") : null
                )
            );
        });
        node.append(
            report.findings.length > 0
                ? list
                : commtap.element("p", {class: "empty"}, "Nothing to report: nobody makes the others wait beyond chance.")
        );
        const table = commtap.element("dl", {class: "facts"});
        facts(report).forEach(([name, text]) =>
            table.append(commtap.element("dt", null, name), commtap.element("dd", null, text))
        );
        node.append(table);
        node.dataset.marks = report.findings.length;
    };

    commtap.addView({id: "findings", title: "Findings", about: "what is wrong, the worst first", draw});
}
