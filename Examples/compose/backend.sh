#!/bin/sh
# Sends a push to the development service at the name `apus`, and checks that the device shows it.
set -eu

# A request to the API: METHOD PATH [curl's options]
api() {
  method=$1 path=$2
  shift 2
  curl --silent --show-error --fail-with-body --request "$method" \
    --header "authorization: Bearer $APUS_DEV_PASSWORD" "$@" "http://apus:2190/api/v1/$path"
}

# What a provider needs: the authority, a provider token and a device token. Libraries take key.p8 instead.
api GET files/authority.pem >authority.pem
bearer=$(api POST 'tokens/provider?format=text')
device=$(api GET status | sed 's/.*"deviceToken":"\([0-9a-f]*\)".*/\1/')

curl --silent --show-error --fail-with-body --http2 --cacert authority.pem \
  --header "authorization: bearer $bearer" \
  --header 'apns-topic: com.example.app' --header 'apns-push-type: alert' \
  --data '{"aps":{"alert":{"title":"Order 7","body":"On its way"}}}' "https://apus:2197/3/device/$device"

# The device has it, within ten seconds.
api POST pushes/wait --header 'content-type: application/json' \
  --data '{"match":{"title":"Order 7","status":200},"timeoutMilliseconds":10000}' >push.json
grep -q '"title":"Order 7"' push.json

# No push broke a rule that a real service or device would trip over.
api GET violations | grep -q '"error":0,"warning":0'
echo "the backend's push is on the device"
