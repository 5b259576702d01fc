"""A page of a report in a browser, watched for requests and complaints."""

from __future__ import annotations


class Watched:
    """A page that keeps what it asked for and what it complained of."""

    def __init__(self, browser, path, **settings):
        self.address = path.as_uri()
        self.context = browser.new_context(accept_downloads=True, **settings)
        self.page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.requests, self.complaints = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda message: self.complaints.append(message.text))

    def open(self, fragment=""):
        self.page.goto(self.address + fragment)
        self.page.wait_for_selector("html[data-ready]")
        return self.page

    def found(self):
        return self.page.inner_text("#found")

    def check(self):
        assert self.complaints == []
        asked = [url for url in self.requests if not url.startswith(("data:", "blob:"))]
        assert {url.partition("#")[0] for url in asked} == {self.address}
