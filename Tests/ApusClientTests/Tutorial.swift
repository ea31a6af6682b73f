import ApusClient
import ApusModel

// The code of `SendYourFirstPush.md`, unchanged; `DocumentationTests` compares the two and runs it.

func makeClient(key: [UInt8]) throws -> APNSClient {
  var configuration = ClientConfiguration(
    endpoint: .apple(.production),
    credential: .providerToken(keyPEM: key, keyID: "ABC123DEFG", teamID: "TEAM123456"))
  configuration.sendTimeoutSeconds = 20
  return try APNSClient(configuration)
}

struct Order: Encodable {
  var number: Int
  var items: [String]
}

func orderIsReady(_ order: Order, token: String) throws -> PushRequest {
  var payload = AlertPayload(
    title: "Order \(order.number)", body: "Ready at the counter.", sound: "default")
  payload.threadID = "orders"
  payload.interruptionLevel = .timeSensitive
  try payload.custom.set("order", order)
  // A payload may have 4,096 bytes: shorten long texts.
  return PushRequest(token: token, app: "com.example.app", try payload.shortened())
}

func keepingTheNewest(_ request: PushRequest, nowSeconds: Int64) -> PushRequest {
  var request = request
  request.collapseID = "order"
  request.expirationSeconds = nowSeconds + 3600
  return request
}

enum Verdict: Equatable {
  case done
  case forgetToken
  case sendAgain
  case lookAt(String)
}

func send(_ request: PushRequest, with client: APNSClient) async throws -> Verdict {
  switch try await client.send(request) {
  case .accepted:
    return .done
  case .rejected(let rejection) where rejection.status == 410:
    return .forgetToken
  case .rejected(let rejection):
    return .lookAt("\(rejection.status) \(rejection.reason)")
  case .unknown(_, retryMayDuplicate: false):
    return .sendAgain
  case .unknown(let cause, retryMayDuplicate: true):
    return .lookAt("the service may have accepted it: \(cause)")
  }
}

func complaints(about request: PushRequest) -> [String] {
  request.lint().map(\.description)
}

struct Delivery: Encodable {
  var stopsLeft: Int
}

func progress(
  _ delivery: Delivery, token: String, nowSeconds: Int64
) throws -> PushRequest {
  var payload = try LiveActivityPayload.update(
    contentState: delivery, timestampSeconds: nowSeconds)
  payload.staleSeconds = nowSeconds + 600
  payload.priority = .powerSaving
  return PushRequest(token: token, app: "com.example.app", payload)
}

func deadTokens(
  among tokens: [String], sending payload: AlertPayload, with client: APNSClient
) async -> [String] {
  let requests = tokens.map { PushRequest(token: $0, app: "com.example.app", payload) }
  var dead: [String] = []
  for await outcome in client.send(all: requests) {
    if case .success(.rejected(let rejection)) = outcome.result, rejection.status == 410 {
      dead.append(tokens[outcome.index])
    }
  }
  return dead
}

func stop(_ client: APNSClient) async {
  await client.close()
}
