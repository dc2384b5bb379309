"""Which vectors are not followed, each with the sentence that says otherwise.

A vector named here is a strict expected failure: one that holds must not stand here.
"""

from __future__ import annotations

# Where the contract says something else than a vector, which was only observed, does.
CONTRADICTED: dict[str, str] = {
    # It follows the redirect and expects what the target answers, a 404.
    "err-worker-302": "ruling 12, worker redirects: 'Never followed: the 3xx is "
    "relayed'; seed, error format: 'Errors from HTTP workers are relayed with the "
    "worker's status and body'",
    # It expects 422 in plain text for a list of texts.
    "gen-batch": "ruling 1: 'The parse-error form holds on every JSON route (also "
    "/generate, embeddings, rerank, classify)'; seed, error format: 'Body is not valid "
    "JSON, does not match the request schema, ...' has the code json_parse_error, and "
    "seed, error codes: the status 400",
}
