import ApusClient
import ApusModel

// The code of `BroadcastOnChannels.md`, unchanged; `DocumentationTests` compares the two and runs it.

func openChannel(_ configuration: ClientConfiguration) async throws -> BroadcastChannel.ID {
  let channels = try ChannelClient(configuration)
  let id = try await channels.create(app: "com.example.app", storage: .newest)
  await channels.close()
  return id
}

func channelThatMayExist(after error: ChannelError) -> Bool {
  if case .unknown(_, mayBeDone: true) = error.kind { true } else { false }
}

struct Match: Encodable {
  var teams: [String]
}

struct Score: Encodable {
  var home: Int
  var guests: Int
}

func kickOff(
  on channel: BroadcastChannel.ID, token: String, nowSeconds: Int64
) throws -> PushRequest {
  let payload = try LiveActivityPayload.start(
    attributesType: "MatchAttributes", attributes: Match(teams: ["Ajax", "Celtic"]),
    contentState: Score(home: 0, guests: 0), alert: LiveActivityAlert(title: "Kick-off"),
    timestampSeconds: nowSeconds, updatedBy: .channel(channel.text))
  return PushRequest(token: token, app: "com.example.app", payload)
}

func goal(
  _ score: Score, on channel: BroadcastChannel.ID, nowSeconds: Int64
) throws -> PushRequest {
  let payload = try LiveActivityPayload.update(
    contentState: score, timestampSeconds: nowSeconds)
  return try PushRequest(
    channel: channel, app: "com.example.app", payload, expirationSeconds: nowSeconds + 600)
}

func announce(
  _ scores: [BroadcastChannel.ID: Score], nowSeconds: Int64, with client: APNSClient
) async throws -> Int {
  let broadcasts = try scores.map { try goal($1, on: $0, nowSeconds: nowSeconds) }
  var accepted = 0
  for await outcome in client.send(all: broadcasts) {
    if case .success(.accepted) = outcome.result { accepted += 1 }
  }
  return accepted
}

func closeChannel(
  _ id: BroadcastChannel.ID, _ configuration: ClientConfiguration
) async throws -> [BroadcastChannel.ID] {
  let channels = try ChannelClient(configuration)
  try await channels.delete(id, app: "com.example.app")
  let others = try await channels.list(app: "com.example.app")
  await channels.close()
  return others
}
