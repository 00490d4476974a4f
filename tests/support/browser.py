"""A headless Chromium, driven by its own driver: real clicks and keys on a page of this machine."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

WIDE, NARROW = 1280, 400
# Nothing is fetched but the page, and containers have no sandbox of their own.
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)
SECONDS = 60


class Browser:
    """One window."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, address: str, width: int = WIDE, *, dark: bool = False) -> None:
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        self.driver.get("about:blank")  # another fragment alone would not load the page again
        self.driver.get(address)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """The texts of all such elements, as the page has them, also those that are not visible."""
        script = "return [...document.querySelectorAll(arguments[0])].map(one => one.textContent)"
        return list(self.driver.execute_script(script, selector))

    def wait(self, condition: Callable[[], Any]) -> Any:
        """What the condition returns as soon as it is true; while elements are replaced, it may raise."""
        from selenium.common.exceptions import WebDriverException

        waiting = WebDriverWait(self.driver, SECONDS, 0.1, ignored_exceptions=[WebDriverException, IndexError])
        return waiting.until(lambda driver: condition())

    def insert(self, text: str) -> None:
        """Insert text at the cursor, as a paste does; keys are for characters of 16 bits."""
        self.driver.execute_cdp_cmd("Input.insertText", {"text": text})

    def press(self, *keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(*keys)

    def replace_text(self, selector: str, text: str) -> None:
        area = self.one(selector)
        area.click()
        area.send_keys(Keys.CONTROL + "a", Keys.DELETE)
        self.insert(text)

    def fits(self) -> bool:
        """Whether nothing is wider than the window."""
        return bool(self.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth"))

    def complaints(self) -> list[str]:
        """What the browser wrote to the page's console: errors, and what the page's policy refused."""
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]


@contextmanager
def chromium() -> Iterator[Browser]:
    """A new window with no profile; the test is skipped where there is no Chromium."""
    binary, driver_binary = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver_binary is None:
        pytest.skip("needs chromium and chromedriver, as Debian's packages chromium and chromium-driver have them")
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = binary
        for option in (*_OPTIONS, f"--user-data-dir={profile}"):
            options.add_argument(option)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options, webdriver.ChromeService(driver_binary))
        try:
            yield Browser(driver)
        finally:
            driver.quit()
