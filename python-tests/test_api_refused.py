"""What the API refuses: roles, tokens, rates, paths, and bodies that are wrong."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection

import duly
import pytest
from api_client import DESCRIPTION, METHODS, ROLES, TOKENS, Api, StartApi, operations, placed, raw, validator
from jsonschema import Draft202012Validator
from support import Server

# Who may come in.


@pytest.mark.parametrize("role", ROLES)
def test_a_role_permits_what_the_description_says_and_no_more(role: str, api: Api) -> None:
    """Each path and method of the description is answered, and by no others than it says."""
    assert {operation["x-duly-role"] for _, _, operation in operations()} == set(ROLES)
    for method, path, operation in operations():
        body = {"wait": 0} if operation["operationId"] == "reserve" else {}
        answer = api.ask(method.upper(), placed(path), body or None, token=TOKENS[role])
        if ROLES.index(role) < ROLES.index(operation["x-duly-role"]):
            assert (answer.status, answer.kind) == (403, "forbidden"), (method, path)
            assert f"the role {role}, and this needs {operation['x-duly-role']}" in answer.message
        elif answer.status >= 400:
            assert answer.kind in ("invalid_argument", "not_found", "no_result", "timeout"), (method, path, answer.text)


def test_the_description_needs_no_token_and_is_the_file(api: Api) -> None:
    answer = api.ask("GET", "openapi.json", token="")
    assert (answer.status, answer.value) == (200, DESCRIPTION)


def test_the_description_is_one_of_openapi() -> None:
    assert DESCRIPTION["openapi"] == "3.1.0"
    schemas = DESCRIPTION["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    text = json.dumps(DESCRIPTION)
    used = set(re.findall(r'"\$ref": "#/([^"]+)"', text))
    there = {f"components/{kind}/{name}" for kind, all_of in DESCRIPTION["components"].items() for name in all_of}
    assert used == {name for name in there if not name.startswith("components/securitySchemes")}
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert len(ids) == len(set(ids))
    for method, path, operation in operations():
        shared = DESCRIPTION["paths"][path].get("parameters", [])
        named = {one["$ref"].rpartition("/")[2] for one in shared} - {"partitions"}
        assert named == set(re.findall(r"\{(\w+)\}", path)), (method, path)
        assert {"default", "200"} <= operation["responses"].keys()


def test_a_description_that_differs_is_noticed() -> None:
    error = {"error": {"kind": "busy", "message": "m", "transient": True}}
    schema = validator({"$ref": "#/components/schemas/Error"})
    assert schema.is_valid(error)
    assert not schema.is_valid({"error": {**error["error"], "secret": 1}})
    assert not validator({"$ref": "#/components/schemas/Push"}).is_valid({"data": 1, "dely": 2})


def test_without_a_token_or_with_a_wrong_one_nothing_is_answered(api: Api) -> None:
    answer = api.ask("GET", "queues", token="")
    assert (answer.status, answer.kind) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == 'Bearer realm="duly"'
    assert answer.headers["connection"] == "close"
    for path in ("queues", "queues/orders", "nothing"):
        assert api.refused("GET", path, token=TOKENS["view"][:-1]) == (401, "unauthorized")
    # Who is signed in to the page is nobody here.
    connection = api.connect()
    with closing(connection):
        connection.request("GET", api.page.partition(str(api.port))[2])
        cookie = connection.getresponse().headers["set-cookie"].partition(";")[0]
    assert api.refused("GET", "queues", token="", headers={"Cookie": cookie}) == (401, "unauthorized")
    basic = {"Authorization": f"Basic {TOKENS['admin']}"}
    assert api.refused("GET", "queues", token="", headers=basic) == (401, "unauthorized")
    _, err = api.end()
    assert err.count("a wrong token from 127.0.0.1") == 1, "the same one fills no log"
    assert TOKENS["view"][:-1] not in err


def test_who_guesses_tokens_is_shut_out(api: Api) -> None:
    for n in range(10):
        assert api.refused("GET", "queues", token=f"guess-{n}") == (401, "unauthorized")
    answer = api.ask("GET", "queues", token="guess-10")
    assert (answer.status, answer.kind, answer.headers["retry-after"]) == (429, "too_many_wrong_tokens", "60")
    api.done("GET", "queues", token=TOKENS["admin"])  # others may have the same address


def test_a_body_of_very_many_parts_is_refused(api: Api) -> None:
    many = {"jobs": b'{"jobs":[' + b"{}," * 100_000 + b"{}]}", "fields": b"{" + b'"a":1,' * 100_000 + b'"b":1}'}
    for kind, body in many.items():
        answer = api.ask("POST", "queues/orders/jobs", body)
        assert (answer.status, answer.kind) in {(400, "invalid_argument"), (413, "too_large")}, kind
    headers = {f"h{n}": "" for n in range(100)}
    assert api.refused("POST", "queues/orders/jobs", {"data": 1, "headers": headers}) == (400, "invalid_argument")
    ids = b'{"ids":["a"' + b',"b"' * 100_000 + b"]}"
    assert api.refused("POST", "queues/orders/requeue", ids) == (400, "invalid_argument")


def test_a_list_of_jobs_that_is_null_is_left_out(api: Api, orders: duly.Queue) -> None:
    assert api.ask("POST", "queues/orders/jobs", b'{"jobs": null, "data": 1}').status == 201
    job = orders.reserve()
    assert job is not None
    assert job.data == 1


def test_a_token_makes_so_many_requests(start_api: StartApi, server: Server, prefix: str) -> None:
    api = start_api(server.url, prefix, "--api", "--api-rate", "5/10m")
    for _ in range(5):
        assert api.ask("GET", "queues", token=TOKENS["view"]).status == 200
    answer = api.ask("GET", "queues", token=TOKENS["view"])
    assert (answer.status, answer.kind) == (429, "too_many_requests")
    assert 100 <= int(answer.headers["retry-after"]) <= 121
    assert api.ask("GET", "queues", token=TOKENS["work"]).status == 200, "another one has its own"


def test_the_read_only_page_has_an_api_that_acts(start_api: StartApi, server: Server, prefix: str) -> None:
    api = start_api(server.url, prefix, "--api", "--read-only")
    assert api.ask("POST", "queues/orders/jobs", {"data": 1}).status == 201


@pytest.mark.parametrize(
    ("tokens", "says"),
    [
        ("", "--api needs 1 to 1000 tokens in the environment variable DULY_API_TOKENS"),
        ("secretsecretsecretsecret", "DULY_API_TOKENS, entry 1: write it as role:token"),
        (f"view:{'s' * 24} boss:secretsecretsecretsecret", "entry 2: the role must be view, work, operate or admin"),
        ("work:secretsecretsecretsecre", "entry 1: a token has 24 characters or more"),
    ],
)
def test_wrong_tokens_keep_the_command_from_starting(
    tokens: str, says: str, start_api: StartApi, server: Server, prefix: str
) -> None:
    api = start_api(server.url, prefix, tokens=tokens)
    out, err = api.process.communicate(timeout=20)
    assert (api.process.returncode, out) == (2, "")
    assert says in err
    assert "secret" not in err


def test_without_the_option_there_is_no_api(start_api: StartApi, server: Server, prefix: str) -> None:
    api = start_api(server.url, prefix, "--read-only")
    connection = api.connect()
    with closing(connection):
        connection.request("GET", "/api/v1/queues", headers={"Authorization": f"Bearer {TOKENS['admin']}"})
        answer = connection.getresponse()
        assert (answer.status, answer.headers["content-type"]) == (404, "text/plain; charset=utf-8")
    refused = subprocess.run(
        [sys.executable, "-m", "duly", "web", "--api-rate", "5/1s"], capture_output=True, text=True, check=False
    )
    assert (refused.returncode, "--api" in refused.stderr) == (2, True)


# What is hostile, and what is slow.


def test_other_paths_and_methods_are_refused(api: Api) -> None:
    for path in ("", "queues/", "queues/a/b", "queues//jobs", "queues/a/jobs/1/", "queues/a/jobs/1/push", "x"):
        assert api.refused("GET", path) == (404, "no_such_path"), path
    assert api.refused("GET", "queues/a%FF") == (400, "invalid_argument")
    assert api.refused("GET", "queues/a%2Fb") == (400, "invalid_argument"), "no queue has such a name"
    for path, item in DESCRIPTION["paths"].items():
        if path.endswith("openapi.json"):
            continue
        for method in {"get", "post", "patch", "delete", "put", "options"} - item.keys():
            answer = api.ask(method.upper(), placed(path))
            assert (answer.status, answer.kind) == (405, "method_not_allowed"), (method, path)
            allowed = {name.strip().lower() for name in answer.headers["allow"].split(",")}
            assert allowed == {name for name in METHODS if name in item}, (method, path)


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"secret", "the body is not JSON (line 1, column 1)"),
        (b'{"data": NaN}', "the body is not JSON (line 1, column 10)"),
        (b'{"data": Infinity}', "the body is not JSON"),
        (b'{"data": 1', "the body is not JSON"),
        (b'{"data": 1} {}', "the body is not JSON"),
        (b'{"data": "\xff"}', "the body is not JSON"),
        (b'\xef\xbb\xbf{"data": 1}', "the body is not JSON"),
        (b"[]", "the body must be a JSON object"),
        (b'"secret"', "the body must be a JSON object"),
        (DEEP, "the body must be a JSON object"),
        (
            b'{"data":' + DEEP + b"}",
            "`data` must be one JSON value in UTF-8, at most 512 levels deep",
        ),
        (
            b'{"headers":' + DEEP + b"}",
            "`headers` must be an object of strings",
        ),
        (b'{"jobs":' + DEEP + b"}", "`jobs[0]` must be a JSON object"),
        (b'{"data": 1, "data": 2}', "`data` is there twice"),
        (b'{"dta": 1}', "`dta` is not known here: `data`, `name`"),
        (b'{"jobs": [], "data": 1}', "`data` is not known here: `jobs` may be given"),
        (b'{"jobs": [{"data": 1}, {"name": 5}]}', "`jobs[1].name` must be a string"),
        (b'{"jobs": {}}', "`jobs` must be a list"),
        (b'{"jobs": []}', "`jobs` must have 1 job or more"),
        (b'{"delay": "5"}', "`delay` must be a number of seconds"),
        (b'{"delay": -1}', "seconds must be 0 or more"),
        (b'{"delay": 1e400}', "`delay` must be a number of seconds"),
        (b'{"delay": 5, "at": 5}', "give `delay` or `at`, not both"),
        (b'{"priority": 5.5}', "`priority` must be a whole number in its range"),
        (b'{"priority": 10}', "priority must be 0 to 9"),
        (b'{"max_retries": -1}', "`max_retries` must be a whole number in its range"),
        (b'{"timeout": 0}', "a timeout must be longer than 0"),
        (b'{"id": ""}', "a job id must have 1 to 128 bytes"),
        (b'{"key": "a\\u0000"}', "a key must have 1 to 256 bytes of UTF-8 and no control characters"),
        (b'{"on_duplicate": "drop"}', "on_duplicate must be"),
        (b'{"durability": "wait"}', "durability"),
        (b'{"retry": {"linear": {"step": 5, "secret": 1}}}', "`retry.linear.secret` is not known here"),
    ],
)
def test_bodies_that_are_wrong_are_refused_with_what_is_wrong(body: bytes, says: str, api: Api) -> None:
    answer = api.ask("POST", "queues/orders/jobs", body)
    assert (answer.status, answer.kind) == (400, "invalid_argument")
    assert says in answer.message
    assert api.done("GET", "queues/orders")["ready"] == 0


def test_wrong_bodies_of_other_requests_are_refused(api: Api) -> None:
    wrong = [
        ("orders/reserve", {"max": 0}),
        ("orders/reserve", {"max": 1001}),
        ("orders/reserve", {"lease": 0}),
        ("orders/reserve", {"lese": 5}),
        ("orders/jobs/1/ack", {}),
        ("orders/jobs/1/ack", {"token": "1"}),
        ("orders/jobs/1/ack", {"token": -1}),
        ("orders/jobs/1/fail", {"token": 1, "final": True, "retry_after": 1}),
        ("orders/jobs/1/fail", {"token": 1, "result": 1}),
        ("orders/jobs/1/release", {"token": 1, "after": -1}),
        ("orders/jobs/1/extend", {"token": 1, "lease": 1e9}),
        ("orders/requeue", {"ids": []}),
        ("orders/requeue", {"ids": [1]}),
        ("a b/reserve", {}),
    ]
    for path, body in wrong:
        path = path.replace(" ", "%20")
        assert api.refused("POST", f"queues/{path}", body) == (400, "invalid_argument"), (path, body)
    assert api.refused("PATCH", "queues/orders/jobs/1", {}) == (400, "invalid_argument")
    assert api.refused("PATCH", "queues/orders/jobs/1", {"delay": 1, "at": 1}) == (400, "invalid_argument")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "orders/jobs/1"),
        ("DELETE", "orders/keys/k"),
        ("DELETE", "orders?jobs=1"),
        ("POST", "orders/pause"),
        ("POST", "orders/resume"),
        ("GET", "orders/jobs/1"),
    ],
)
@pytest.mark.parametrize("nothing", [b"{}", b" [] "])
def test_what_is_said_in_a_body_that_nobody_reads_is_refused(method: str, path: str, nothing: bytes, api: Api) -> None:
    api.done("POST", "queues/orders/jobs", {"data": 1, "id": "1", "key": "k"})
    answer = api.ask(method, f"queues/{path}", b'{"only": "delayed"}')
    assert (answer.status, answer.kind) == (400, "invalid_argument")
    assert "`only` is not known here: what this request takes is in its query" in answer.message
    assert api.refused(method, f"queues/{path}", b"not json") == (400, "invalid_argument")
    counts = api.done("GET", "queues/orders")
    assert (counts["ready"], counts["paused"]) == (1, False)
    assert api.ask(method, f"queues/{path}", nothing).status == 200, "it says nothing"


def test_an_empty_array_of_php_is_an_object_without_fields(api: Api) -> None:
    api.done("POST", "queues/orders/jobs", b'{"data": 1, "headers": []}')
    assert len(api.done("POST", "queues/orders/reserve", b"[ ]")["jobs"]) == 1
    for body in (b"[]", b'{"jobs": [[]]}', b"[1]", b'{"data": 1, "headers": [1]}', b"[}"):
        assert api.refused("POST", "queues/orders/jobs", body) == (400, "invalid_argument")


@pytest.mark.parametrize("path", ["orders/pause", "orders/reserve"])
def test_an_empty_body_of_unknown_length_is_none(path: str, api: Api) -> None:
    api.done("POST", "queues/orders/jobs", {"data": 1})
    headers = {"Authorization": f"Bearer {TOKENS['admin']}", "Transfer-Encoding": "chunked"}
    for body, status in ((b"", 200), (b"x", 415)):
        with closing(HTTPConnection("127.0.0.1", api.port, timeout=30)) as connection:
            connection.request("POST", f"/api/v1/queues/{path}", iter([body]), headers, encode_chunked=True)
            answer = connection.getresponse()
            assert (answer.status, status) == (status, answer.status), answer.read()


def test_a_body_is_json_and_not_too_large(api: Api) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert api.refused("POST", "queues/orders/jobs", b"data=1", headers=form) == (415, "unsupported_media_type")
    with_charset = {"Content-Type": "application/json; charset=utf-8"}
    assert api.ask("POST", "queues/orders/jobs", b'{"data":1}', headers=with_charset).status == 201
    large = json.dumps({"data": "x" * (1 << 20)}).encode()
    assert api.refused("POST", "queues/orders/jobs", large) == (413, "too_large"), "of one job"
    # Fifteen jobs of a megabyte are as much as a request may have.
    many = json.dumps({"jobs": [{"data": "x" * 1_000_000}] * 15}).encode()
    assert len(api.done("POST", "queues/orders/jobs", many)["jobs"]) == 15
    with socket.create_connection(("127.0.0.1", api.port)) as connection:
        head = raw("queues/orders/jobs", b"").replace(b"Content-Length: 0", b"Content-Length: 16777217")
        connection.sendall(head)
        assert b"HTTP/1.1 413 " in connection.recv(1000), "before it is sent"
    with socket.create_connection(("127.0.0.1", api.port)) as connection:
        connection.settimeout(30)
        head = raw("queues/orders/jobs", b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        connection.sendall(head)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            connection.sendall((b"100000\r\n" + b" " * 0x100000 + b"\r\n") * 64)


def test_nobody_without_a_token_has_a_body_read(api: Api) -> None:
    with socket.create_connection(("127.0.0.1", api.port)) as connection:
        body = b"[" * 1000
        connection.sendall(raw("queues/orders/jobs", body).replace(TOKENS["work"].encode(), b"wrong")[:-500])
        assert b"HTTP/1.1 401 " in connection.recv(1000)
