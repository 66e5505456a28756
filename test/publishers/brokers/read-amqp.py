# Reads one message with pika, and prints what there is of it as JSON.
import base64
import json
import sys

import pika

url, queue = sys.argv[1:]
connection = pika.BlockingConnection(pika.URLParameters(url))
method, properties, body = connection.channel().basic_get(queue, auto_ack=True)
print(
    json.dumps(
        {
            "routingKey": method.routing_key,
            "body": base64.b64encode(body).decode(),
            "contentType": properties.content_type,
            "deliveryMode": properties.delivery_mode,
            "messageId": properties.message_id,
            "timestamp": properties.timestamp,
            "type": properties.type,
            "appId": properties.app_id,
            "headers": properties.headers,
        }
    )
)
connection.close()
