"""``prototag open``: open a folder of pictures in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prototag.cli import library_common, terminal
from prototag.cli.ask_folder import ask_folder
from prototag.cli.library_common import Language
from prototag.cli.serve import Port, application, run
from prototag.cli.terminal import Cache, Column, Jobs, Kind, Quiet
from prototag.errors import InputError

if TYPE_CHECKING:
    from prototag.library.library import Library
    from prototag.service.phone import PhoneAccess


def open(
    photos: Annotated[
        Path | None,
        typer.Argument(
            help="A folder of pictures, or a library. Asks if neither this nor --library is given.",
            show_default=False,
        ),
    ] = None,
    library: Annotated[
        Path | None,
        typer.Option(
            "--library",
            "-l",
            metavar="FILE",
            help="The library of the folder, created if it does not exist; prototag.library in the "
            "folder if not given. For read-only folders.",
            show_default=False,
        ),
    ] = None,
    port: Port = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    phone: Annotated[
        bool,
        typer.Option(
            "--phone",
            help="Let phones in the same network connect by a QR code, which works once. The "
            "connection is not encrypted.",
        ),
    ] = False,
    kind: Kind = "auto",
    column: Column = None,
    jobs: Jobs = -1,
    cache: Cache = None,
    language: Language = None,
    quiet: Quiet = False,  # noqa: ARG001 - handled by its callback
) -> None:
    """Open a collection in the browser: train, review suggestions, correct and write tags.

    Creates a library in the folder, or at --library, if there is none, and scans new pictures while
    the page is open. Only this computer can open the page, and phones that you connect with
    --phone. Ctrl-C stops the program.
    """
    import webbrowser

    from prototag.engine.threads import count_threads
    from prototag.library.library import Library
    from prototag.service.routes.jobs import start

    create_app = application()
    if photos is None:
        photos = ask_folder() if library is None else library
        library = None
    kept = terminal.opened(cache)
    file = _file_of(photos, library)
    if file.exists():
        opened = Library(file, n_jobs=jobs, cache=kept)
    else:
        library_common.check_has_pictures(photos, kind, column)
        opened = Library.create(
            photos, file, kind=terminal.kinds(kind), column=column, n_jobs=jobs, cache=kept
        )
        terminal.print_info(f"Created the library {opened.path}.")
    with opened:
        if language is not None:
            opened.set_language(language)
        _check_holds(opened, photos, file)
        phones = _phone_access() if phone else None
        app = create_app(opened, threads=count_threads(jobs), phones=phones)

        def ready(address: str) -> None:
            start(app.state.service.jobs, "scan", opened.scan)
            if phones is not None:
                _show_code(phones)
            if browser:
                webbrowser.open(address)

        run(app, "127.0.0.1", port, ready)


def _phone_access() -> PhoneAccess:
    try:
        import segno  # noqa: F401 - draws the codes
    except ModuleNotFoundError:
        raise InputError(
            "--phone needs segno, which is not installed: pip install 'prototag[web]'."
        ) from None
    from prototag.service.phone import PhoneAccess, network_address

    return PhoneAccess(network_address())


def _show_code(phones: PhoneAccess) -> None:
    from prototag.service.phone import CODE_LIFETIME_S, qr_text

    link = phones.new_code()
    terminal.print_info(
        f"{qr_text(link)}Scan this code with a phone in the same network, or open {link} there. It "
        f"works once, for {CODE_LIFETIME_S / 60:.0f} minutes; Settings shows new ones. The "
        "connection is not encrypted: use it only in a network that you trust."
    )


def _file_of(photos: Path, library: Path | None) -> Path:
    """Return the file of the library to open or create."""
    if library is None:
        return photos / library_common.NAME if photos.is_dir() or not photos.exists() else photos
    if photos.is_file() and library_common.is_library(photos):
        raise typer.BadParameter(f"{photos} is a library itself: open it without --library.")
    return library / library_common.NAME if library.is_dir() else library


def _check_holds(opened: Library, photos: Path, file: Path) -> None:
    """Refuse a library of other folders."""
    if file == photos:
        return
    folders = opened.status().roots
    asked = photos.resolve()
    if not any(asked.is_relative_to(root.resolve()) for root in folders):
        raise InputError(
            f"{file} is the library of {', '.join(map(str, folders))}, not of {photos}: name "
            "another file with --library, or open the library itself."
        )
