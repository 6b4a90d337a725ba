"""`t2t-query-server`: sends texts to a running t2t-server and prints its outputs with their scores."""

import http.client
import json
import logging
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from absl import flags

from t2t.cli.common import command
from t2t.cli.decoding import typed_lines
from t2t.cli.flags import LONGEST_S, NAMES, OUTPUT, command_flags, flag_group
from t2t.cli.tensor2tensor import QUERY_FLAGS, define_unused_flags
from t2t.errors import MachineError, UserError
from t2t.inference.hypothesis import LENGTH

log = logging.getLogger("t2t")

USAGE = """
Sends each typed line to a running t2t-server, and prints its outputs, best first, each with its score.

    %s --server=localhost:8080
    %s --server=localhost:8080 --servable_name=run --inputs_once="three hundred"
"""


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    with flag_group(values, NAMES) as define:
        define.string("server", "", "host:port of the server, or its URL, https://....")
        define.string("servable_name", "", "Name of the model there; empty for the first.")
    with flag_group(values, OUTPUT) as define:
        define.string("inputs_once", "", "Sends only this text.")
        define.integer("n_best", 1, "Outputs for each text.", lower_bound=1)
        define.float("timeout_secs", 10.0, "Seconds to wait for an answer.", 0.001, LONGEST_S)
    define_unused_flags(values, QUERY_FLAGS)


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    if not values.server:
        raise UserError("not given", "name host:port of a running t2t-server, e.g. localhost:8080", option="server")
    address = _address(values.server)
    for text in [values.inputs_once] if values.inputs_once else typed_lines():
        for output in _outputs(address, text, values):
            print(f"{output['score']:10.4f}  {output['text']}", flush=True)
    return 0


def _address(server: str) -> str:
    """Returns the URL of a server, without a slash at its end; raises UserError for what is none."""
    address = (server if "://" in server else f"http://{server}").rstrip("/")
    try:
        parts = urllib.parse.urlsplit(address)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not match, a port that is no number
        is_address = False
    if not is_address:
        raise UserError("it is not the address of a web server", "give host:port", option="server", value=server)
    return address


def _outputs(address: str, text: str, values: flags.FlagValues) -> list[dict[str, Any]]:
    """Returns the outputs of the server for a text, each with its `text` and `score`.

    Raises:
        UserError: the server refuses the request.
        MachineError: no answer, or not the answer of a t2t-server.
    """
    body = {"text": [text], "n_best": values.n_best}
    body |= {"model": values.servable_name} if values.servable_name else {}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{address}/translate", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=values.timeout_secs) as answer:
            (found,) = json.load(answer)["translations"]
            outputs = found["outputs"]
            if found.get("cut"):
                log.warning("the text is longer than the model reads, and was cut")
            if any(output.get("finish_reason") == LENGTH for output in outputs):
                log.warning("an output ends at its limit, see extra_length")
            return outputs
    except urllib.error.HTTPError as error:
        kind = UserError if error.code < 500 else MachineError
        raise kind(f"{address} refuses the text: {_message(error)}") from error
    except http.client.InvalidURL as error:
        raise UserError(f"{error}", "give host:port", option="server", value=values.server) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise MachineError(f"no answer from {address}: {reason}", "is t2t-server running there?") from error
    except (ValueError, KeyError, TypeError) as error:
        raise MachineError(f"{address} does not answer as t2t-server does", "check --server") from error


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"status {error.code}"
