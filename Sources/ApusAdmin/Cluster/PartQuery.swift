import ApusModel
import ApusThread
import ApusWeb
import ApusWire

/// What the administration of part 0's node asks the nodes of the other parts: no operation of the API.
enum PartQuery {
  /// `GET part/report`; the answer is a ``PartReport``.
  case report
  /// `POST part/sightings` with `{"devices": ["00112233aabbccdd"]}`; the answer has the same of ``PartSighting``.
  case sightings([DeviceID])

  private static let folder = "part"

  var request: WebRequest {
    switch self {
    case .report: Self.request("GET", "report")
    case .sightings(let devices):
      Self.request(
        "POST", "sightings",
        JSONValue.fields(["devices": .array(devices.map { .string($0.text) })]).bytes)
    }
  }

  private static func request(
    _ method: String, _ name: String, _ body: [UInt8] = []
  ) -> WebRequest {
    var request = WebRequest(
      method: method, segments: [folder, name], query: [], headers: [],
      peer: .local(user: .max, process: 0), body: body)
    request.caller = WebCaller(name: "node", origin: "", rights: 0)
    return request
  }

  /// Nil for a request of the API.
  init?(_ request: WebRequest) {
    guard request.segments.count == 2, request.segments[0] == Self.folder else { return nil }
    switch request.segments[1] {
    case "report": self = .report
    case "sightings":
      guard let json = try? JSONValue(parsing: request.body.span),
        let devices = json["devices"]?.array
      else { return nil }
      self = .sightings(devices.compactMap { $0.string.flatMap { DeviceID(text: $0) } })
    default: return nil
    }
  }

  /// What a node answers about its own part.
  func answer(_ view: ServiceView) -> JSONValue {
    switch self {
    case .report: return PartReport(view).json
    case .sightings(let devices):
      let seen = view.service.sightings(of: devices)
      return .fields([
        "devices": .array(seen.map { PartSighting.json($0.key, $0.value) })
      ])
    }
  }
}

extension [DecidingNode] {
  /// Asks nodes at the same time, and waits for all answers. Nil for a node that gave none.
  func answers(to queries: [PartQuery?]) -> [JSONValue?] {
    let outcome = Monitor(
      (answers: [JSONValue?](repeating: nil, count: count), open: queries.count { $0 != nil }))
    for (index, (node, query)) in zip(self, queries).enumerated() {
      guard let query else { continue }
      node.ask(ForwardedRequest(query.request).bytes, mayBeRepeated: true) { result in
        let answer = (try? result.get()).flatMap { ForwardedResponse($0)?.json }
        outcome.notify { state in
          state.answers[index] = answer
          state.open -= 1
        }
      }
    }
    return outcome.wait { $0.open == 0 ? .found($0.answers) : .wait(untilMilliseconds: nil) }
  }
}

extension ForwardedResponse {
  /// Nil for an answer that says what is wrong.
  fileprivate var json: JSONValue? {
    guard response.status == 200, case .bytes(let content) = response.body else { return nil }
    return try? JSONValue(parsing: content.span)
  }
}
