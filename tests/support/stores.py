"""Object stores over HTTP, served by this process."""

import socket
import threading
from contextlib import contextmanager
from http import HTTPStatus

import pytest


@contextmanager
def s3():
    from moto.server import ThreadedMotoServer
    from s3fs import S3FileSystem

    S3FileSystem.clear_instance_cache()  # of another test's server
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    server.stop()


@contextmanager
def gs():
    from gcp_storage_emulator.server import create_server

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = create_server("127.0.0.1", port, in_memory=True)
    server.start()
    yield {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}", "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}
    server.stop()


@contextmanager
def conditions_at_amazon():
    """Moto looks at a condition and then writes: here, as at Amazon, nothing comes between."""
    from moto.s3.responses import S3Response

    lock = threading.Lock()

    def alone(handler):
        def handle(*words):
            with lock:
                return handler(*words)

        return handle

    with pytest.MonkeyPatch.context() as patch:
        for name in "put_object", "delete_object":
            patch.setattr(S3Response, name, alone(getattr(S3Response, name)))
        yield


@contextmanager
def conditions_at_google():
    """The emulator takes no notice of `ifGenerationMatch`: here it does, as Google does."""
    from gcp_storage_emulator import server
    from gcp_storage_emulator.exceptions import NotFound
    from gcp_storage_emulator.handlers import objects

    def name(request):
        if "object_id" in request.params:
            return request.params["object_id"]
        return request.query["name"][0] if "name" in request.query else request.data["meta"]["name"]

    def conditional(handler):
        def handle(request, response, storage):
            for wanted in request.query.get("ifGenerationMatch", []):
                try:
                    there = storage.get_file_obj(request.params["bucket_name"], name(request))["generation"]
                except NotFound:
                    there = "0"
                if wanted != there:
                    response.status = HTTPStatus.PRECONDITION_FAILED
                    return
            handler(request, response, storage)

        return handle

    with pytest.MonkeyPatch.context() as patch:
        for _, handlers in server.HANDLERS:
            for method, handler in list(handlers.items()):
                if handler in (objects.insert, objects.delete):
                    patch.setitem(handlers, method, conditional(handler))
        yield


def conditions_of(bucket):
    return conditions_at_amazon() if bucket.startswith("s3") else conditions_at_google()
