/// The response of a handler.
package struct WebResponse: Sendable {
  package enum Body: Sendable {
    case bytes([UInt8])
    /// Sent as it is written, until the stream ends.
    case stream(WebStream)
  }

  package var status: Int
  package var contentType: String
  /// Header fields besides the content type. They replace fields of ``defaultHeaders`` with the same name.
  package var headers: [WebField]
  package var body: Body
  /// Milliseconds by which the response is delayed.
  package var holdMilliseconds: Int64 = 0

  package init(
    _ status: Int, contentType: String, headers: [WebField] = [], body: Body
  ) {
    self.status = status
    self.contentType = contentType
    self.headers = headers
    self.body = body
  }

  package init(_ status: Int, contentType: String = "text/plain; charset=utf-8", text: String) {
    self.init(status, contentType: contentType, body: .bytes(Array(text.utf8)))
  }

  /// Default header fields: no scripts, no framing, no content sniffing, no caching.
  package static let defaultHeaders = [
    WebField("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
    WebField("X-Frame-Options", "DENY"),
    WebField("X-Content-Type-Options", "nosniff"),
    WebField("Referrer-Policy", "no-referrer"),
    WebField("Cache-Control", "no-store"),
  ]

  /// All header fields of the response except those of HTTP itself.
  var allHeaders: [WebField] {
    let own = [WebField("Content-Type", contentType)] + headers
    let names = Set(own.map { $0.name.lowercased() })
    return own + Self.defaultHeaders.filter { !names.contains($0.name.lowercased()) }
  }
}

/// Answers requests.
package protocol WebHandler: Sendable {
  /// Checks a request's head before its body is read, and may set the caller. A returned response ends the request.
  ///
  /// Called on the server's own thread; it must not block.
  func screen(_ head: inout WebRequest) -> WebResponse?

  /// Answers a complete request. Called on a thread of the pool, so it may block, for example on the disk or a worker.
  func answer(_ request: WebRequest) -> WebResponse

  /// The response to a malformed request, 400, in the handler's format. `problem` says why. Called on the server's
  /// thread.
  func malformed(_ problem: String) -> WebResponse

  /// The response to a body above the limit, 413. Called on the server's thread.
  func tooLarge(limitBytes: Int) -> WebResponse
}
