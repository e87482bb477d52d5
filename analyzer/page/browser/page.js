// SPDX-License-Identifier: Apache-2.0
//
// The page: its head, the bar that chooses what all views show, a section for each view, drawn when it is first seen.
"use strict";

{
    const STILL_MS = 150;

    const rangeOf = function (label, key) {
        const control = commtap.rangeField(label, (ranges) => commtap.selection.choose({[key]: ranges}));
        commtap.selection.onChange("field-" + key, () => control.take(commtap.selection[key]));
        return control;
    };

    const oneOf = function (label, key, values) {
        const all = [["", "all"]].concat(values.map((value) => [value, value]));
        const control = commtap.choice(label, all, "", (value) =>
            commtap.selection.choose({[key]: value === "" ? null : key === "stage" ? Number(value) : value})
        );
        const select = control.querySelector("select");
        commtap.selection.onChange("field-" + key, () => {
            select.value = commtap.selection[key] === null ? "" : commtap.selection[key];
        });
        return control;
    };

    const drawBar = function () {
        const bar = commtap.element("form", {
            class: "bar",
            "aria-label": "what all views show",
            onsubmit: (event) => event.preventDefault(),
        });
        bar.append(rangeOf("Steps", "steps"), rangeOf("Ranks", "ranks"), oneOf("Host", "host", commtap.hosts()));
        if (commtap.stages().length > 0) {
            bar.append(oneOf("Stage", "stage", commtap.stages()));
        }
        const clear = commtap.button("Show all", () => commtap.selection.clear());
        const follow = () => {
            clear.disabled = !commtap.selection.isLimited();
        };
        commtap.selection.onChange("clear", follow);
        follow();
        bar.append(clear, commtap.button("Light or dark", () => {
            setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
        }));
        return bar;
    };

    /* Pictures are drawn in colours of their own, anew. */
    const setTheme = function (theme) {
        document.documentElement.dataset.theme = theme;
        commtap.selection.choose({light: theme === "light"});
    };

    const drawHead = function (page) {
        const links = commtap.element("nav", {"aria-label": "views"});
        commtap.views.forEach((view) => links.append(commtap.element("a", {href: "#" + view.id}, view.title)));
        return commtap.element(
            "header",
            null,
            commtap.element("h1", null, "commtap: " + page.title),
            links,
            drawBar()
        );
    };

    /* Above what steps cannot be chosen of, as its sums are not kept by step: said where some are chosen. */
    const wholeRunNote = () =>
        commtap.element("p", {class: "note whole-run", hidden: ""}, "Of the whole run, not of the chosen steps alone.");

    const tellWholeRun = function () {
        document.querySelectorAll(".whole-run").forEach((note) => {
            note.hidden = !commtap.selection.steps;
        });
    };

    const sectionOf = function (view) {
        const body = commtap.element("div", {class: "body"});
        const section = commtap.element(
            "section",
            {id: view.id, "aria-labelledby": view.id + "-title"},
            commtap.element("h2", {id: view.id + "-title"}, view.title),
            commtap.element("p", {class: "about"}, view.about),
            view.wholeRun ? wholeRunNote() : null,
            body
        );
        return {section, body, view, drawn: false};
    };

    /* A view that fails takes no other one with it. */
    const drawOnce = function (item) {
        if (!item || item.drawn) {
            return;
        }
        item.drawn = true;
        try {
            item.view.draw(item.body);
        } catch (error) {
            commtap.empty(item.body, "This view could not be drawn: " + error.message);
            console.error(error);
        }
        item.section.dataset.drawn = "yes";
    };

    /* Before a link leads to a view, that view and the one above it are drawn: later it would be pushed down. */
    const drawBeforeLinks = function (items) {
        document.addEventListener("click", (event) => {
            const link = event.target.closest("a[href^='#']");
            const place = link ? items.findIndex((item) => "#" + item.view.id === link.getAttribute("href")) : -1;
            if (place >= 0) {
                drawOnce(items[place - 1]);
                drawOnce(items[place]);
            }
        });
    };

    /* Paper is light and of its own width; every view is on it, seen or not. */
    const followPrinting = function (items, lookAnew) {
        let theme = null;
        window.addEventListener("beforeprint", () => {
            theme = document.documentElement.dataset.theme;
            document.documentElement.dataset.paper = "yes";
            items.forEach((item) => {
                commtap.selection.setSeen(item.section, true);
                drawOnce(item);
            });
            setTheme("light");
            commtap.selection.redraw();
        });
        window.addEventListener("afterprint", () => {
            delete document.documentElement.dataset.paper;
            setTheme(theme);
            commtap.selection.redraw();
            lookAnew();
        });
    };

    /* Pictures fit the window, once it has kept its width for a moment. */
    const followWidth = function (main) {
        let width = main.clientWidth;
        let waiting = null;
        new ResizeObserver(() => {
            clearTimeout(waiting);
            waiting = setTimeout(() => {
                if (main.clientWidth !== width && !document.documentElement.dataset.paper) {
                    width = main.clientWidth;
                    commtap.selection.redraw();
                }
            }, STILL_MS);
        }).observe(main);
    };

    const start = function () {
        const page = commtap.block("page");
        const main = commtap.element("main");
        document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
        const items = commtap.views.map(sectionOf);
        document.title = "commtap: " + page.title;
        items.forEach((item) => main.append(item.section));
        document.body.append(
            drawHead(page),
            main,
            commtap.element("footer", null,
                "commtap " + page.version + (page.redacted ? "; names, paths and arguments were taken out" : ""))
        );
        const byNode = new Map(items.map((item) => [item.section, item]));
        const look = (entry) => {
            commtap.selection.setSeen(entry.target, entry.isIntersecting);
            if (entry.isIntersecting) {
                drawOnce(byNode.get(entry.target));
            }
        };
        const seen = new IntersectionObserver((entries) => entries.forEach(look), {rootMargin: "200px"});
        const lookAnew = function () {
            seen.disconnect();
            items.forEach((item) => seen.observe(item.section));
        };
        lookAnew();
        commtap.selection.onChange("whole-run", tellWholeRun, ["steps"]);
        drawBeforeLinks(items);
        followPrinting(items, lookAnew);
        followWidth(main);
    };

    start();
}
