/// What a handler answers.
package struct WebResponse: Sendable {
  package enum Body: Sendable {
    case bytes([UInt8])
    /// Sent as it is written, until it ends.
    case stream(WebStream)
  }

  package var status: Int
  package var contentType: String
  /// Besides the content type, and in place of those of ``defaultHeaders`` that have the same name.
  package var headers: [WebField]
  package var body: Body
  /// For which the answer is held back; the connection waits.
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

  /// Stands in every answer that says nothing else: nothing of it is run, framed, guessed at or kept.
  package static let defaultHeaders = [
    WebField("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
    WebField("X-Frame-Options", "DENY"),
    WebField("X-Content-Type-Options", "nosniff"),
    WebField("Referrer-Policy", "no-referrer"),
    WebField("Cache-Control", "no-store"),
  ]

  /// All header fields of the answer but those of HTTP itself.
  var allHeaders: [WebField] {
    let own = [WebField("Content-Type", contentType)] + headers
    let names = Set(own.map { $0.name.lowercased() })
    return own + Self.defaultHeaders.filter { !names.contains($0.name.lowercased()) }
  }
}

/// Answers requests.
package protocol WebHandler: Sendable {
  /// Looks at a request's head, before its body is read, and may say whose it is. What is returned ends the request.
  ///
  /// Called on the server's own thread: it must not wait for anything.
  func screen(_ head: inout WebRequest) -> WebResponse?

  /// Answers a request whose body is there. Called on one of several threads that are there for it: it may wait, for
  /// the disk or for a worker, and only so many requests are answered at once.
  func answer(_ request: WebRequest) -> WebResponse

  /// The answer to a request that cannot be read, in the handler's form: 400. `problem` says why. On the server's
  /// thread, as the next.
  func malformed(_ problem: String) -> WebResponse

  /// The answer to a body that is larger than the server takes: 413.
  func tooLarge(limitBytes: Int) -> WebResponse
}
