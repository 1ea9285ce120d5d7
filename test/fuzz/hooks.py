"""What a JSON Schema cannot say of Davit's REST API, for schemathesis.

Requests that are meant to be right get types of events that exist, cursors that were given out, and mostly URLs that
are allowed, so that they are carried out and not only refused. What is left of the rules that are no JSON Schema is in
BEYOND_THE_SCHEMA. Requests that are meant to be wrong go out as they were made.
"""

import atexit
import json
import os
import re
import zlib
from collections import Counter

import schemathesis

RECEIVER = os.environ["FUZZ_RECEIVER"]
STATUSES = os.environ["FUZZ_STATUSES"]

# Of the first one the schema allows any data.
TYPES = ["fuzz.anything", "environment.started", "environment.stopped", "member.joined", "billing.updated"]

REGISTRIES = ["ghcr.io", "index.docker.io", "Registry.example.com:5000", "[2001:db8::1]:5000"]

# Operation and place of what a request may be refused for although it fits its schema.
BEYOND_THE_SCHEMA = {
    # A URL is judged as the WHATWG has it, and by the networks that are allowed.
    "createEndpoint": re.compile(r"/url|/eventTypes/\d+"),
    "changeEndpoint": re.compile(r"/url|/eventTypes/\d+"),
    # Which host is one, and which is one of ECR, and what a type has.
    "createCredential": re.compile(r"/registry|/username|/secret"),
    "changeCredential": re.compile(r"/username|/secret"),
    # A role and a key that fit the region.
    "putSettings": re.compile(r""),
    # A type that exists, data that fits the schema of that type, and one key.
    "publishEvent": re.compile(r"/type|/data(/.*)?|/id|/timestamp"),
    # The same of each event, and not too many deliveries in all.
    "publishEvents": re.compile(r"/events(/\d+/(type|data(/.*)?|timestamp))?"),
    # One that was given out.
    "listEndpoints": re.compile(r"cursor"),
    "listCredentials": re.compile(r"cursor"),
    "listEventTypes": re.compile(r"cursor"),
    "listDeliveries": re.compile(r"cursor"),
    "listAllDeliveries": re.compile(r"cursor"),
    "listEvents": re.compile(r"cursor"),
    "listBoxTemplates": re.compile(r"cursor"),
}

LISTS = (
    "listEndpoints",
    "listCredentials",
    "listEventTypes",
    "listDeliveries",
    "listAllDeliveries",
    "listEvents",
    "listBoxTemplates",
)

statuses = Counter()
# What was given out: of a list the last cursor, of an endpoint or a credential, by its id, the last ETag.
cursors = {}
etags = {}


def one_in(count, value):
    """The same for the same value, so that what was found can be found again."""
    return number_of(value) % count == 0


def number_of(value):
    return zlib.crc32(json.dumps(value, sort_keys=True, default=str).encode())


def is_one_of_several(case):
    """Whether what comes next builds on its answer."""
    return case.meta.phase.name == "stateful"


def operation_of(case):
    return case.operation.definition.raw.get("operationId")


def list_of(case):
    """Which list a cursor belongs to."""
    filters = sorted(item for item in (case.query or {}).items() if item[0] not in ("cursor", "limit"))
    path = sorted((case.path_parameters or {}).items())
    return json.dumps([operation_of(case), path, filters], default=str)


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    operation = operation_of(case)
    if isinstance(case.body, dict) and operation in ("createEndpoint", "changeEndpoint"):
        case.body = possible_endpoint(case.body)
    if isinstance(case.body, dict) and operation == "createCredential":
        case.body = possible_credential(case.body)
    if isinstance(case.body, dict) and operation == "publishEvent":
        case.body = possible_event(case.body, case.headers)
    if isinstance(case.body, dict) and operation == "publishEvents" and isinstance(case.body.get("events"), list):
        events = [possible_event(one, {}) if isinstance(one, dict) else one for one in case.body["events"]]
        case.body = {**case.body, "events": events}
    for name in list(case.headers or {}):
        if name.lower() == "if-match":
            case.headers[name] = possible_etag(case, case.headers[name])
        if name.lower() == "idempotency-key" and (is_one_of_several(case) or not one_in(4, case.headers[name])):
            # Few keys are made up, and one that was used for something else does nothing; one that was used for the
            # same answers with what was made then, which may be deleted by now.
            case.headers[name] = f"{number_of(case.headers[name])}-{sum(statuses.values())}"
    if case.query and "cursor" in case.query:
        case.query = possible_query(case)


def possible_endpoint(body):
    body = dict(body)
    number = number_of(body)
    if isinstance(body.get("url"), str) and not one_in(4, body["url"]):
        body["url"] = f"{RECEIVER}/{number}"
    types = body.get("eventTypes")
    if isinstance(types, list) and types != ["*"] and not one_in(8, types):
        # Not the type that is published most: each of these endpoints would get each event.
        first = 1 + number % (len(TYPES) - 1)
        body["eventTypes"] = TYPES[first : first + 1 + number % 3]
    return body


def possible_credential(body):
    body = dict(body)
    number = number_of(body)
    if number % 8 == 0:
        return body
    # Mostly of the type that needs no account: what is made up as an account is none.
    if body.get("type") == "ecr" or number % 4:
        body["type"] = "ecr"
        body["registry"] = f"{number % 10**12:012}.dkr.ecr.eu-west-1.amazonaws.com"
        body.pop("username", None)
        body.pop("secret", None)
    else:
        body.update(registry=REGISTRIES[number % len(REGISTRIES)], username="bot", secret=f"secret-{number}")
    return body


def possible_event(body, headers):
    body = dict(body)
    number = number_of(body)
    if number % 8 != 0:
        body["type"] = TYPES[0] if number % 4 else TYPES[number // 4 % len(TYPES)]
    if "idempotency-key" in {name.lower() for name in headers or {}} and number % 8 != 1:
        body.pop("id", None)
    return body


def possible_etag(case, value):
    """Mostly the one that the object has. Whatever the pattern of a header, one with quotes is made up as `0`."""
    path = case.path_parameters or {}
    known = etags.get(path.get("endpointId") or path.get("credentialId") or path.get("orgId"))
    if known is not None and not one_in(4, [value, known]):
        return known
    return "*" if value == "0" else value


def possible_query(case):
    """With the cursor that was given out last for this list; without one where there is none yet, mostly."""
    cursor = cursors.get(list_of(case))
    if cursor is not None:
        return {**case.query, "cursor": cursor}
    if one_in(4, case.query):
        return case.query
    return {name: value for name, value in case.query.items() if name != "cursor"}


@schemathesis.hook
def after_call(context, case, response):
    statuses[f"{response.request.method} {case.operation.path}", response.status_code] += 1
    etag = response.headers.get("etag")
    if etag:
        body = response.json()
        settings = (case.path_parameters or {}).get("orgId")
        etags[body.get("endpoint", body).get("endpointId") or body.get("id") or settings] = etag[0]
    if response.status_code == 200 and operation_of(case) in LISTS:
        cursor = response.json().get("cursor")
        if cursor is not None:
            cursors[list_of(case)] = cursor


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """False for a right request that was refused for what no schema can say."""
    places = BEYOND_THE_SCHEMA.get(operation_of(case))
    if failure.code != "ST202" or response.status_code != 422 or places is None:
        return True
    errors = response.json().get("errors", [])
    return not errors or any(places.fullmatch(error["pointer"]) is None for error in errors)


@atexit.register
def write_statuses():
    rows = [{"operation": name, "status": status, "count": count} for (name, status), count in statuses.items()]
    with open(STATUSES, "w", encoding="utf-8") as file:
        json.dump(rows, file)
