# SPDX-License-Identifier: Apache-2.0
#
# A page of commtap html in a real browser, without a screen.
# Lives here: starting it, what every page must be (silent, on its own), reading views. Must not live here: tests.
import json
import time

import jobs

DRAWN_SECONDS = 30  # to wait for a view at most: machines are slow at times


class Page:
    """One page that is open, or none yet; figures come from its elements and from its blocks of data."""

    def __init__(self, path, width=1280, height=900):
        from selenium import webdriver
        from selenium.webdriver.chrome.options import Options
        from selenium.webdriver.chrome.service import Service

        options = Options()
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--force-device-scale-factor=1",
                     "--hide-scrollbars", f"--window-size={width},{height}"):
            options.add_argument(word)
        if path:
            options.add_experimental_option("prefs", {"download.default_directory": str(path.parent)})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        if path:
            self.open(path)

    def open(self, path):
        self.driver.get(f"file://{path}")

    def close(self):
        self.driver.quit()

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def find_all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def wait_for(self, what, condition):
        end = time.monotonic() + DRAWN_SECONDS
        while not (value := condition()):
            assert time.monotonic() < end, f"no {what}"
            time.sleep(0.02)
        return value

    def views(self):
        return [section.get_attribute("id") for section in self.find_all("main > section")]

    def show(self, view):
        """Scrolls to a view and waits until it is drawn."""
        section = self.find(f"section#{view}")
        places = [None]

        def rests():
            """Views above it that are drawn meanwhile push it down."""
            self.run("arguments[0].scrollIntoView()", section)
            places.append(self.run("return arguments[0].getBoundingClientRect().top", section))
            return section.get_attribute("data-drawn") == "yes" and places[-1] == places[-2]

        self.wait_for(f"view {view}", rests)
        return section

    def marks(self, view):
        """How many things a view drew, as it counts them itself."""
        self.show(view)
        return self.run("const node = document.querySelector(`section#${arguments[0]} [data-marks]`);"
                        "return node ? Number(node.dataset.marks) : null", view)

    def draw_anew(self, view, change):
        """A view as it is of other data: `change` is a script that makes them so; it may have been drawn of what was there."""
        self.show(view)
        self.run(change + """;
            const body = document.querySelector(`section#${arguments[0]} .body`);
            body.replaceChildren();
            commtap.views.find((item) => item.id === arguments[0]).draw(body);""", view)

    def block(self, name):
        return json.loads(self.find(f"script#data-{name}").get_attribute("textContent"))

    def table(self, selector):
        """The rows of a table that are on screen, as texts by the keys of the columns."""
        keys = [button.get_attribute("data-key") for button in self.find_all(f"{selector} thead button")]
        rows = self.run("return Array.from(document.querySelectorAll(arguments[0] + ' tbody tr'),"
                        "(row) => Array.from(row.cells, (cell) => cell.textContent))", selector)
        return [dict(zip(keys, row)) for row in rows]

    def complaints(self):
        """What the browser has to say: mistakes of scripts, what the page's policy forbade."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        return self.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")


def need():
    jobs.need("chromium", "chromium-driver", "python3-selenium", "node-d3")
