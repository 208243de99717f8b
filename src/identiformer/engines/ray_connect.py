"""How Ray is started or joined: with the token of the cluster, if it asks for one."""

import importlib
import os
from typing import Any

from identiformer.engines.ray_process import unreachable
from identiformer.errors import RunError


def connect(address: str | None, cpus: int) -> None:
    """Join the cluster at an address, or start Ray on this machine with so many CPUs."""
    import ray

    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        options |= {"num_cpus": cpus, "include_dashboard": False}
    elif "://" not in address and address != "auto":
        _agree_on_token(address)
    try:
        ray.init(address or "local", **options)
    except Exception as error:  # Ray raises what it likes, down to a bare Exception where a busy machine takes too long
        if address is not None:
            raise RunError(unreachable(address)) from error
        raise RunError(
            f"Ray could not be started on this machine ({str(error).strip().rstrip('.')}); try again when it is less busy, or "
            f"use one worker."
        ) from error


def _agree_on_token(address: str) -> None:
    """Use the token that is found here if the cluster asks for one: Ray does so only for a cluster that it finds itself.

    Never without need, because then workers, which send none, could not talk to this process.
    """
    try:
        from ray._private.authentication.authentication_token_setup import maybe_enable_token_auth_if_token_available
        from ray.exceptions import AuthenticationError
    except ImportError:  # a version of Ray without tokens
        return
    raylet: Any = importlib.import_module("ray._raylet")  # compiled, so its names are not known beforehand
    found = raylet.AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True)
    expected = f"the Ray cluster at {address} expects its token"
    share = "copy ~/.ray/auth_token from the head of the cluster to this machine, or set RAY_AUTH_TOKEN to what is in it"
    try:
        if found or os.environ.get("RAY_AUTH_MODE", "").lower() != "token":  # else Ray would end this process
            raylet.GcsClient(address=address)
            return
    except AuthenticationError:
        pass
    except Exception as error:
        raise RunError(unreachable(address)) from error
    if not found:
        raise RunError(f"{expected}, and none was found here; {share}.")
    if not maybe_enable_token_auth_if_token_available(warn_if_disabled=False):
        raise RunError(f"{expected}, but RAY_AUTH_MODE forbids to send it; unset that variable, or set it to token.")
    try:
        raylet.GcsClient(address=address)
    except AuthenticationError:
        raise RunError(f"{expected}, and got another one from here; {share}.") from None
