"""What is said where models cannot be written, which needs no server."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.host.sources import SourceError
from penstock.host.sources.postgres.writing import write_models

PASSWORDS = {
    "password=s3cret": "password=***",
    "PASSWORD = s3cret": "PASSWORD = ***",
    "password='my s3cret'": "password=***",
    r"password='my \' s3cret'": "password=***",
}


@pytest.mark.parametrize("said", PASSWORDS)
def test_a_refusal_does_not_say_the_password(said: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        write_models(f"host={tmp_path} {said} user=eve", "learned", {"w": [1.0]})
    assert caught.value.code == "E705"
    start = f"host={tmp_path} {PASSWORDS[said]} user=eve refused to take the models into learned: "
    assert caught.value.message.startswith(start)
    assert "s3cret" not in str(caught.value.message) + str(caught.value.hint)


@pytest.mark.parametrize("rest", ["", "&password=s3cret"])
def test_nor_that_of_an_address(rest: str) -> None:
    with pytest.raises(SourceError) as caught:
        write_models(f"postgresql://eve:s3cret@/shop?host=/nowhere{rest}", "learned", {"w": [1.0]})
    assert caught.value.message.startswith("postgresql://eve@/shop refused to take the models")
    assert "s3cret" not in caught.value.message


@pytest.mark.parametrize("url", ["postgresql://eve@/shop\udcff", "host=\udcff"])
def test_bytes_that_are_no_text(url: str) -> None:
    """Python has them as surrogates, which no server is sent."""
    from penstock.sql.install import _transaction

    with pytest.raises(SourceError, match="surrogates not allowed"):
        write_models(url, "learned", {"w": [1.0]})
    with pytest.raises(SourceError, match="surrogates not allowed"), _transaction(url):
        pass
