"""Requests and results of A2A 1.0 in the form of 0.3, and back."""

from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as official
from google.protobuf.json_format import MessageToDict
from tests.gateway.plane import Json


def sent_0_3(params: Json) -> Json:
    """Return the params of a send of texts in the form of 0.3."""
    message = dict(params["message"])
    message["kind"] = "message"
    message["role"] = message["role"].removeprefix("ROLE_").lower()
    message["parts"] = [{"kind": "text", **part} for part in message["parts"]]
    configuration = dict(params.get("configuration") or {})
    configuration["blocking"] = not configuration.pop("returnImmediately", False)
    if "taskPushNotificationConfig" in configuration:
        configuration["pushNotificationConfig"] = configuration.pop("taskPushNotificationConfig")
    return {**params, "message": message, "configuration": configuration}


def sent_rest(params: Json) -> Json:
    """Return the params of a send as a client of 0.3 writes them in ProtoJSON, by the names of the protobuf."""
    sent = sent_0_3(params)
    message = {**params["message"], "content": params["message"]["parts"]}
    del message["parts"]
    configuration = dict(sent["configuration"])
    if "pushNotificationConfig" in configuration:
        configuration["push_notification"] = configuration.pop("pushNotificationConfig")
    rest = {name: value for name, value in params.items() if name not in ("message", "configuration")}
    return {**rest, "request": message, "configuration": configuration}


def named_1_0(path: str) -> str:
    """Return the path of a member of a send in the form of 1.0, from that in the params of `sent_rest`."""
    return path.replace("request.", "message.", 1).replace("message.content", "message.parts", 1)


def result_1_0(result: Json) -> Json:
    """Return a result of 0.3 in the form of 1.0, by the official library."""
    match result["kind"]:
        case "task":
            return {"task": MessageToDict(conversions.to_core_task(official.Task.model_validate(result)))}
        case "message":
            return {"message": MessageToDict(conversions.to_core_message(official.Message.model_validate(result)))}
        case "status-update":
            status = official.TaskStatusUpdateEvent.model_validate(result)
            return {"statusUpdate": MessageToDict(conversions.to_core_task_status_update_event(status))}
        case _:
            artifact = official.TaskArtifactUpdateEvent.model_validate(result)
            return {"artifactUpdate": MessageToDict(conversions.to_core_task_artifact_update_event(artifact))}
