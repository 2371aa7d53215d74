"""What is wrong with a data source."""

from ...models.errors import Error


class SourceError(Error):
    """Something about a data source that its user can mend: `message` says what is wrong, `hint` what to do.

    `code` is the diagnostic's: E701 what was typed, E702 the file, E703 its contents, E704 its columns and rows, E705 the server, E706 another
    table than the design's.
    """

    def __init__(self, message: str, hint: str, *, code: str = "E703") -> None:
        super().__init__(message, hint, code=code)


def table_error(message: str, hint: str) -> SourceError:
    """Return what is wrong with columns and rows."""
    return SourceError(message, hint, code="E704")


def server_error(message: str, hint: str) -> SourceError:
    """Return what is wrong with a server, or what it sent."""
    return SourceError(message, hint, code="E705")
