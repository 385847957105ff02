"""Pages in a real browser."""

import contextlib
import threading
import urllib.request

CHROMIUM_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

# The library's own opener remembers the proxies of whoever called it first.
open_directly = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


@contextlib.contextmanager
def serving(app, port=0, access=None):
    """Serve a page from this process; yield its address."""
    from nutime.explore.page import bind

    server = bind(app, "127.0.0.1", port, access)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.port}"
    server.shutdown()
    thread.join()


@contextlib.contextmanager
def watched(tab, address):
    """Fail the test if an error occurs in a tab meanwhile, or a request to another server."""
    troubles = []
    own = (address, "data:", "blob:", "about:")
    listeners = {
        "pageerror": lambda error: troubles.append(str(error)),
        "console": lambda message: troubles.append(message.text) if message.type == "error" else None,
        "request": lambda request: None if request.url.startswith(own) else troubles.append(request.url),
    }
    for event, listener in listeners.items():
        tab.on(event, listener)
    yield tab
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)
    assert not troubles


def text(page, selector, pattern):
    """Wait until the text of an element matches a pattern, and return that text."""
    found = page.wait_for_function(
        """([selector, pattern]) => {
            const found = document.querySelector(selector)?.textContent ?? "";
            return new RegExp(pattern).test(found) && [found];
        }""",
        arg=[selector, pattern],
    )
    return found.json_value()[0]


def assert_one_column_on_a_phone(page, *selectors):
    """Show the page on a screen of 390 pixels: nothing is wider, and each element takes most of the width."""
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("() => document.documentElement.scrollWidth === 390")
    for selector in selectors:
        assert 250 < page.locator(selector).bounding_box()["width"] <= 390
