// SPDX-License-Identifier: Apache-2.0
//
// Pieces that views are made of: elements, canvases that fit the screen's pixels, the box beside the pointer, files to
// save. All text goes in as text: nothing that came from the job is ever read as HTML.
"use strict";

{
    /** element("p", {class: "note"}, "text", child ...); attributes that begin with "on" are listeners. */
    commtap.element = function (name, attributes, ...children) {
        const node = document.createElement(name);
        Object.keys(attributes || {}).forEach((key) => {
            if (key.startsWith("on")) {
                node.addEventListener(key.slice(2), attributes[key]);
            } else if (attributes[key] !== null && attributes[key] !== false) {
                node.setAttribute(key, attributes[key]);
            }
        });
        children.forEach((child) => {
            if (child !== null && child !== undefined) {
                node.append(child);
            }
        });
        return node;
    };

    /** A colour of the style by its name, as it is now, in light or in dark. */
    commtap.color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

    /** A canvas of that many CSS pixels, and its context, scaled so that one unit is one of them. */
    commtap.canvas = function (width, height, label) {
        const ratio = window.devicePixelRatio || 1;
        const canvas = commtap.element("canvas", {
            width: Math.round(width * ratio),
            height: Math.round(height * ratio),
            role: "img",
            "aria-label": label,
        });
        canvas.style.width = width + "px";
        canvas.style.height = height + "px";
        const context = canvas.getContext("2d");
        context.scale(ratio, ratio);
        return {canvas, context};
    };

    /** The width that a view has for a picture. */
    commtap.widthOf = (node) => Math.max(480, Math.floor(node.getBoundingClientRect().width) - 2);

    const box = {node: null};

    /** Shows lines of text beside the pointer; null hides them. */
    commtap.showBeside = function (event, lines) {
        if (!box.node) {
            box.node = commtap.element("div", {class: "beside", role: "status"});
            document.body.append(box.node);
        }
        box.node.hidden = !lines;
        if (!lines) {
            return;
        }
        box.node.replaceChildren(...lines.map((line) => commtap.element("div", null, line)));
        const right = event.clientX + 16 + box.node.offsetWidth > window.innerWidth;
        const below = event.clientY + 16 + box.node.offsetHeight > window.innerHeight;
        box.node.style.left = event.clientX + (right ? -16 - box.node.offsetWidth : 16) + "px";
        box.node.style.top = event.clientY + (below ? -16 - box.node.offsetHeight : 16) + "px";
    };

    /** Hands a text over as a file to save. */
    commtap.save = function (name, type, text) {
        const url = URL.createObjectURL(new Blob([text], {type}));
        const link = commtap.element("a", {href: url, download: name});
        document.body.append(link);
        link.click();
        link.remove();
        setTimeout(() => URL.revokeObjectURL(url), 10000);
    };

    /** Why a view shows nothing. */
    commtap.empty = (node, why) => node.append(commtap.element("p", {class: "empty"}, why));

    /** A labelled choice: choices are [value, text]; tells `changed` of the chosen value. */
    commtap.choice = function (label, choices, chosen, changed) {
        const select = commtap.element("select", {onchange: () => changed(select.value)});
        choices.forEach(([value, text]) => {
            const option = commtap.element("option", {value}, text);
            option.selected = String(value) === String(chosen);
            select.append(option);
        });
        return commtap.element("label", {class: "control"}, label + " ", select);
    };

    /** A text whose single ranks ("rank 3") lead to their page. */
    commtap.linked = function (text) {
        const node = commtap.element("span", null);
        text.split(/(\brank \d+\b)/).forEach((part, n) =>
            node.append(n % 2 === 1 ? commtap.element("a", {href: "#rank=" + part.slice("rank ".length)}, part) : part));
        return node;
    };

    /** What colours of a picture mean: of [{name, color}], the colours by their names in the style. */
    commtap.legend = function (kinds) {
        const legend = commtap.element("p", {class: "legend"});
        kinds.forEach((kind) => {
            const key = commtap.element("span", {class: "key"});
            key.style.setProperty("background", "var(--" + kind.color + ")");
            legend.append(key, " " + kind.name + "  ");
        });
        return legend;
    };

    /**
     * A field for "3", "3-7" or "0-3,8"; tells `changed` of ranges, of null where it is emptied. What it cannot take it says
     * beside the field. Its `take` shows ranges that were chosen elsewhere.
     */
    commtap.rangeField = function (label, changed) {
        const wrong = commtap.element("span", {class: "wrong", role: "alert"});
        const say = function (what) {
            input.setCustomValidity(what);
            wrong.textContent = what;
        };
        const input = commtap.element("input", {
            type: "text",
            size: 9,
            placeholder: "all",
            onchange: () => {
                const told = commtap.parseRanges(input.value);
                say(told.wrong || "");
                if (!told.wrong) {
                    changed(told.ranges);
                }
            },
        });
        const control = commtap.element("label", {class: "control"}, label + " ", input, wrong);
        control.take = function (ranges) {
            input.value = commtap.rangesText(ranges);
            say("");
        };
        return control;
    };

    commtap.button = (text, pressed) =>
        commtap.element("button", {type: "button", onclick: pressed}, text);
}
