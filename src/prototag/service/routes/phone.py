"""Endpoints that connect phones; :mod:`prototag.service.security` decides who may ask."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from prototag.service.phone import (
    COOKIE,
    SESSION_LIFETIME_S,
    PhoneAccess,
    qr_svg,
)
from prototag.service.problem_details import Problem, not_found
from prototag.service.routes.operation import Call, Operation


def _phones(call: Call) -> PhoneAccess:
    phones = call.service.phones
    if phones is None:
        raise not_found("phones cannot connect: start `prototag open FOLDER --phone`.")
    return phones


async def state(call: Call) -> Any:
    phones = call.service.phones
    if phones is None:
        return {"enabled": False, "address": "", "link": "", "expires_in": 0, "phones": 0}
    return {"enabled": True, **phones.state()._asdict()}


async def new_code(call: Call) -> Any:
    _phones(call).new_code()
    return await state(call)


async def qr(call: Call) -> Any:
    link = _phones(call).state().link
    if not link:
        raise not_found("the code was used or has expired: create a new one.")
    return Response(await call.in_thread(qr_svg, link), 200, None, "image/svg+xml")


async def disconnect(call: Call) -> Any:
    _phones(call).disconnect()
    return await state(call)


async def connect(call: Call) -> Any:
    session = _phones(call).connect(call.body["code"])
    if session is None:
        raise Problem(
            403,
            "wrong-code",
            "the code is wrong, was used, or has expired: create a new one on the computer "
            "(Settings, Phone), and scan it again.",
        )
    response = Response(b"{}", 200, None, "application/json")
    response.set_cookie(
        COOKIE, session, int(SESSION_LIFETIME_S), httponly=True, samesite="strict", path="/"
    )
    return response


OPERATIONS = (
    Operation(
        "GET",
        "/phone",
        "phone",
        "Return whether phones may connect, with the link of the current code. Only this computer "
        "may ask.",
        state,
        "Phone",
    ),
    Operation(
        "POST",
        "/phone/code",
        "newPhoneCode",
        "Create a one-time code, which replaces the one before. Only this computer may ask.",
        new_code,
        "Phone",
        "Nothing",
        errors=(404,),
    ),
    Operation(
        "GET",
        "/phone/qr",
        "phoneQr",
        "Return the link of the current code as a QR code. Only this computer may ask.",
        qr,
        media="image/svg+xml",
        errors=(404,),
    ),
    Operation(
        "POST",
        "/phone/disconnect",
        "disconnectPhones",
        "End the sessions of all phones, and withdraw the code. Only this computer may ask.",
        disconnect,
        "Phone",
        "Nothing",
        errors=(404,),
    ),
    Operation(
        "POST",
        "/phone/connect",
        "connectPhone",
        "Exchange a one-time code for a session, which the browser keeps in a cookie.",
        connect,
        "Nothing",
        "ConnectPhoneRequest",
        errors=(403, 404),
    ),
)
