"""The web page of a gateway in the browser of this machine."""

import webbrowser
from urllib.parse import quote


def page_address(url: str, session: str = "") -> str:
    """Return the address of a session in the page of the gateway at `url`; of a new one without a session."""
    return f"{url.rstrip('/')}/ui/sessions/{quote(session, safe='')}" if session else f"{url.rstrip('/')}/"


def open_page(address: str) -> bool:
    """Open a page in the user's browser, which may take some seconds, and return whether there is one.

    A browser that would take over the terminal does not count.
    """
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    return type(browser) is not webbrowser.GenericBrowser and browser.open(address)
