"""Cuts the network of every Python that finds this file on its path when it starts.

The suite must pass on a machine with no network, so nothing in it may depend on one. The test run
puts this folder on PYTHONPATH; notebook kernels, JupyterLab and other children inherit that. An
audit hook sees each connection before a packet is sent, and refuses all but this machine itself.
"""

import ipaddress
import sys

HERE = ("localhost", "", None)
WATCHED = {"socket.connect", "socket.sendto", "socket.sendmsg"}
RESOLVED = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}


class NetworkIsCut(OSError):
    """Something asked for another host while the tests were running."""


def is_local(host: object) -> bool:
    """Whether a host name or address is this machine (a resolved name, not looked up here)."""
    name = host.decode() if isinstance(host, (bytes, bytearray)) else host
    if name in HERE:
        return True
    try:
        address = ipaddress.ip_address(str(name).partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def refuse(host: object) -> None:
    """Raise the error that says what happened and why."""
    raise NetworkIsCut(
        f"the tests run with the network cut, and something asked for {host!r}:"
        " use what is installed, or 127.0.0.1"
    )


def watch(event: str, arguments: tuple[object, ...]) -> None:
    """The audit hook: look at the host in a socket's address, or in a name look-up."""
    if event in RESOLVED:
        host = arguments[0]
    elif event in WATCHED:
        address = arguments[1]
        if not isinstance(address, tuple):  # a Unix socket's path, or no address at all
            return
        host = address[0]
    else:
        return
    if not is_local(host):
        refuse(host)


def cut() -> None:
    """Cut the network of this process, once."""
    if not getattr(sys, "_attnlib_network_cut", False):
        sys._attnlib_network_cut = True  # type: ignore[attr-defined]
        sys.addaudithook(watch)


cut()

# Nine tenths of what importing nbformat takes: parsers for a kind of address that no notebook has.
# jsonschema does without them where they are not installed.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
