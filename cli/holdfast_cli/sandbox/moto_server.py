"""moto's server for EC2, with a control endpoint for what EC2 decides itself: ids, states, reasons; and the price list.

Run as `python -m holdfast_cli.sandbox.moto_server PORT REGION`. The control endpoint, `POST /_holdfast/ec2/…`,
answers only to the bearer token in HOLDFAST_SANDBOX_TOKEN. The account is MOTO_ACCOUNT_ID.
"""

import hmac
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from threading import Lock, Thread
from types import FrameType
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from holdfast_cli.sandbox import prices

# moto's EC2 codes of an instance's state, InstanceState in the EC2 API.
_STATE_CODES = {
    "pending": 0,
    "running": 16,
    "shutting-down": 32,
    "terminated": 48,
    "stopping": 64,
    "stopped": 80,
}

_Json = dict[str, Any]


class RefusedError(Exception):
    """A control request that cannot be carried out."""


@dataclass(slots=True)
class SpotRequest:
    """What moto's DescribeSpotInstanceRequests asks of a request.

    Not moto's own class, whose constructor launches another instance and whose status cannot change.
    """

    spot_instance_request_id: str
    instance_id: str
    create_time: datetime
    state: str
    status: _Json
    type: str = "one-time"
    product_description: str = "Linux/UNIX"
    instance_interruption_behavior: str = "terminate"

    @property
    def id(self) -> str:
        return self.spot_instance_request_id

    def get_filter_value(self, name: str, _method: str | None = None) -> str:
        filters = {
            "spot-instance-request-id": self.spot_instance_request_id,
            "instance-id": self.instance_id,
            "state": self.state,
            "status-code": self.status["Code"],
        }
        return str(filters[name])


class Ec2Backend:
    """moto's EC2 of one account, changed from outside the EC2 API."""

    def __init__(self, account: str) -> None:
        self._account = account
        self._lock = Lock()

    def load(self, region: str) -> None:
        """Read EC2's tables: it takes seconds, and the patience of the first caller may be shorter."""
        with self._lock:
            self._region(region)

    def put_instance(self, region: str, order: _Json) -> None:
        """An instance with the id that the order names, in place of one with the same id."""
        with self._lock:
            self._drop(region, order["id"])
            reservation = self._region(region).run_instances(
                "ami-00000000000000000",
                1,
                None,
                [],
                instance_type=order["type"],
                is_instance_type_default=True,
                region_name=region,
                placement=order["zone"],
                private_ip=order.get("private_ip"),
                lifecycle="spot" if order.get("spot_request") else None,
                block_device_mappings=[],
                tags={"instance": {}},
            )
            (instance,) = reservation.instances
            instance.id = order["id"]
            instance.add_tags(order.get("tags", {}))
            instance.launch_time = datetime.fromisoformat(order["launched"]).astimezone(UTC).replace(tzinfo=None)
            if order.get("spot_request"):
                instance.spot_instance_request_id = order["spot_request"]
                self._region(region).spot_instance_requests[order["spot_request"]] = SpotRequest(
                    spot_instance_request_id=order["spot_request"],
                    instance_id=instance.id,
                    create_time=instance.launch_time,
                    state="active",
                    status={"Code": "fulfilled", "Message": "", "UpdateTime": instance.launch_time},
                )
        self.set_state(region, order | {"state": order.get("state", "running")})

    def set_state(self, region: str, order: _Json) -> None:
        """State, StateReason and StateTransitionReason, exactly as given."""
        from moto.ec2.models.instances import InstanceState, StateReason  # noqa: PLC0415

        if order["state"] not in _STATE_CODES:
            raise RefusedError(f"state {order['state']!r} is none of {', '.join(_STATE_CODES)}")
        with self._lock:
            instance = self._instance(region, order["id"])
            instance._state = InstanceState(order["state"], _STATE_CODES[order["state"]])  # noqa: SLF001
            instance.state_reason = StateReason(order.get("reason_message", ""), order.get("reason_code", ""))
            instance._reason = order.get("transition", "")  # noqa: SLF001

    def set_spot_request(self, region: str, order: _Json) -> None:
        """State and status of the instance's Spot request."""
        with self._lock:
            instance = self._instance(region, order["id"])
            request = self._region(region).spot_instance_requests.get(instance.spot_instance_request_id)
            if request is None:
                raise RefusedError(f"{order['id']} has no Spot request: it was put as On-Demand")
            request.state = order["state"]
            request.status = {
                "Code": order["status_code"],
                "Message": order.get("status_message", ""),
                "UpdateTime": order["updated"],
            }

    def forget(self, region: str, order: _Json) -> None:
        """The instance was never there, as EC2 has it about an hour after termination."""
        with self._lock:
            self._instance(region, order["id"])
            self._drop(region, order["id"])

    def _region(self, region: str) -> Any:
        from moto.ec2.models import ec2_backends  # takes seconds to import and load  # noqa: PLC0415

        return ec2_backends[self._account][region]

    def _instance(self, region: str, instance_id: str) -> Any:
        for instance in self._region(region).all_instances():
            if instance.id == instance_id:
                return instance
        raise RefusedError(f"there is no instance {instance_id} in {region}")

    def _drop(self, region: str, instance_id: str) -> None:
        backend = self._region(region)
        for reservation_id, reservation in list(backend.reservations.items()):
            if any(instance.id == instance_id for instance in reservation.instances):
                del backend.reservations[reservation_id]
        backend.tags.pop(instance_id, None)


def with_control(application: WSGIApplication, backend: Ec2Backend, token: str) -> WSGIApplication:
    """`application`, except that `/_holdfast/ec2/…` is ours."""
    actions: dict[str, Callable[[str, _Json], None]] = {
        "/_holdfast/ec2/instance": backend.put_instance,
        "/_holdfast/ec2/state": backend.set_state,
        "/_holdfast/ec2/spot-request": backend.set_spot_request,
        "/_holdfast/ec2/forget": backend.forget,
    }

    def controlled(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if environ.get("HTTP_X_AMZ_TARGET") == prices.GET_PRODUCTS:
            asked = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
            return _answer(start_response, "200 OK", prices.products(sizes(), asked.get("Filters", ())))
        if not path.startswith("/_holdfast/"):
            return application(environ, start_response)
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        given = environ.get("HTTP_AUTHORIZATION", "").encode()
        action = actions.get(path)
        if not hmac.compare_digest(given, f"Bearer {token}".encode()):
            return _respond(start_response, "401 Unauthorized", "the bearer token of this sandbox is missing or wrong")
        if action is None or environ["REQUEST_METHOD"] != "POST":
            return _respond(start_response, "404 Not Found", f"POST one of {', '.join(actions)}")
        try:
            order = json.loads(body)
            action(order["region"], order)
        except (RefusedError, ValueError, KeyError, TypeError) as error:
            return _respond(start_response, "400 Bad Request", f"{type(error).__name__}: {error}")
        return _respond(start_response, "200 OK", None)

    return controlled


def _respond(start_response: StartResponse, status: str, error: str | None) -> list[bytes]:
    return _answer(start_response, status, {"error": error} if error else {})


def _answer(start_response: StartResponse, status: str, document: _Json) -> list[bytes]:
    body = json.dumps(document).encode()
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


@cache
def sizes() -> dict[str, prices.Size]:
    """Every instance type that moto knows."""
    from moto.ec2.models.instance_types import INSTANCE_TYPES  # noqa: PLC0415 - it reads a large file

    return {
        name: prices.Size(int(item["VCpuInfo"]["DefaultVCpus"]), int(item["MemoryInfo"]["SizeInMiB"]))
        for name, item in INSTANCE_TYPES.items()
    }


def price_spot_instances() -> None:
    """Gives DescribeSpotPriceHistory prices: moto's own are one and the same for every type."""
    from moto.core.responses import ActionResult  # noqa: PLC0415
    from moto.ec2.responses.spot_instances import SpotInstances  # noqa: PLC0415

    def history(self: Any) -> Any:
        filters = self._filters_from_querystring()
        offers = self.ec2_backend.describe_spot_price_history(self._get_param("InstanceTypes", []), filters)
        known = sizes()
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        return ActionResult(
            {
                "SpotPriceHistory": [
                    {
                        "InstanceType": offer["InstanceType"],
                        "ProductDescription": "Linux/UNIX (Amazon VPC)",
                        "SpotPrice": str(prices.spot(known[offer["InstanceType"]], offer["Location"])),
                        "AvailabilityZone": offer["Location"],
                        "Timestamp": now,
                    }
                    for offer in offers
                    if offer["InstanceType"] in known
                ]
            }
        )

    SpotInstances.describe_spot_price_history = history  # type: ignore[method-assign]


def main() -> None:
    token = os.environ.pop("HOLDFAST_SANDBOX_TOKEN")
    account = os.environ["MOTO_ACCOUNT_ID"]
    port, region = int(sys.argv[1]), sys.argv[2]

    from moto.moto_server.werkzeug_app import (  # noqa: PLC0415
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server  # noqa: PLC0415

    price_spot_instances()
    backend = Ec2Backend(account)
    # Beside the start of all else, which nobody needs EC2 for.
    Thread(target=backend.load, args=[region], daemon=True).start()
    application = with_control(DomainDispatcherApplication(create_backend_app), backend, token)
    server = make_server("127.0.0.1", port, application, threaded=True, request_handler=MotoRequestHandler)

    def end(_number: int, _frame: FrameType | None) -> None:
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    server.serve_forever()


if __name__ == "__main__":
    main()
