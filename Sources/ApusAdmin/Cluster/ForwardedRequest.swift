import ApusWeb
import ApusWire

/// A request that an edge has authorized and passes on to the node that decides.
///
/// Layout: number of bytes of the head (4, big-endian), head, content. The head is a JSON object, so that nodes of
/// different versions understand each other:
///
/// ```
/// {"method": "GET", "path": ["v1", "status"], "query": [["limit", "5"]], "headers": [["content-type", "..."]],
///  "caller": {"name": "token console", "origin": "192.0.2.1:40000", "rights": 1}}
/// ```
struct ForwardedRequest {
  var request: WebRequest

  /// The header fields that operations look at.
  private static let headers: Set = ["content-type", "idempotency-key"]

  init(_ request: WebRequest) { self.request = request }

  var bytes: [UInt8] {
    let caller = request.caller
    let head = JSONValue.fields([
      "method": .string(request.method),
      "path": .array(request.segments.map { .string($0) }),
      "query": .pairs(request.query),
      "headers": .pairs(request.headers.filter { Self.headers.contains($0.name) }),
      "caller": caller.map {
        .fields([
          "name": .string($0.name), "origin": .string($0.origin), "rights": .number($0.rights),
        ])
      },
    ])
    return ForwardedParts(head: head, content: request.body).bytes
  }

  /// Nil for bytes that are no such request.
  ///
  /// - Parameter node: The node that passes it on, which appears in the audit log.
  init?(_ bytes: [UInt8], from node: String) {
    guard let parts = ForwardedParts(bytes), let method = parts.head["method"]?.string,
      let path = parts.head["path"]?.array, let query = parts.head["query"]?.pairs,
      let headers = parts.head["headers"]?.pairs, let caller = parts.head["caller"],
      let name = caller["name"]?.string, let origin = caller["origin"]?.string,
      let rights = caller["rights"]?.integer.flatMap(UInt32.init(exactly:))
    else { return nil }
    let segments = path.compactMap(\.string)
    guard segments.count == path.count else { return nil }
    request = WebRequest(
      method: method, segments: segments, query: query, headers: headers,
      peer: .local(user: .max, process: 0), body: parts.content)
    request.caller = WebCaller(name: name, origin: "\(origin), node \(node)", rights: rights)
  }
}

/// The answer to a ``ForwardedRequest``: layout as there, with the head
///
/// ```
/// {"status": 200, "type": "application/json", "headers": [["Retry-After", "1"]]}
/// ```
struct ForwardedResponse {
  var response: WebResponse

  init(_ response: WebResponse) { self.response = response }

  var bytes: [UInt8] {
    guard case .bytes(let content) = response.body else {
      preconditionFailure("no operation of the administration answers with a stream")
    }
    let head = JSONValue.fields([
      "status": .number(response.status), "type": .string(response.contentType),
      "headers": .pairs(response.headers),
    ])
    return ForwardedParts(head: head, content: content).bytes
  }

  /// Nil for bytes that are no such answer.
  init?(_ bytes: [UInt8]) {
    guard let parts = ForwardedParts(bytes),
      let status = parts.head["status"]?.integer, (200...599).contains(status),
      let type = parts.head["type"]?.string, let headers = parts.head["headers"]?.pairs
    else { return nil }
    response = WebResponse(
      Int(status), contentType: type, headers: headers, body: .bytes(parts.content))
  }
}

/// A head and a content, behind the number of the head's bytes.
private struct ForwardedParts {
  var head: JSONValue
  var content: [UInt8]

  init(head: JSONValue, content: [UInt8]) {
    self.head = head
    self.content = content
  }

  var bytes: [UInt8] {
    let head = head.bytes
    var bytes: [UInt8] = []
    bytes.append(bigEndian: UInt32(head.count))
    return bytes + head + content
  }

  init?(_ bytes: [UInt8]) {
    var reader = ByteReader(bytes.span)
    guard let count = reader.u32(), let head = reader.take(Int(count)),
      let json = try? JSONValue(parsing: head)
    else { return nil }
    self.init(head: json, content: Array(bytes[reader.offset...]))
  }
}

extension JSONValue {
  fileprivate static func pairs(_ fields: [WebField]) -> JSONValue {
    .array(fields.map { .array([.string($0.name), .string($0.value)]) })
  }

  /// Nil for anything else than what `pairs(_:)` makes.
  fileprivate var pairs: [WebField]? {
    guard let elements = array else { return nil }
    let fields = elements.compactMap { element -> WebField? in
      guard let pair = element.array, pair.count == 2, let name = pair[0].string,
        let value = pair[1].string
      else { return nil }
      return WebField(name, value)
    }
    return fields.count == elements.count ? fields : nil
  }
}
