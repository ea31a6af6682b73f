import ApusDevice
import ApusModel
import ApusServer
import ApusWire

extension CapturedPush {
  /// Writes the push as the API returns it.
  ///
  /// - Parameter curl: The command that sends it again.
  func write(to writer: inout JSONWriter, curl: String) {
    writer.beginObject()
    writer.integer("number", Int64(clamping: number))
    writer.integer("receivedMilliseconds", request.receivedMilliseconds)
    writer.integer("answeredMilliseconds", exchange.answeredMilliseconds)
    writer.text("interface", request.interface.text)
    writer.text("environment", request.environment.name)
    writer.integer("connection", Int64(clamping: request.connection.number))
    writer.text("peer", request.connection.peer)
    writer.text("credential", request.credential)
    writer.text("method", request.method)
    writer.text("path", request.path)
    writer.key("headers")
    writer.beginArray()
    for header in request.headers {
      writer.beginArray()
      writer.string(header.name)
      writer.string(Self.harmless(header))
      writer.endArray()
    }
    writer.endArray()
    writer.text("token", request.token)
    writer.text("channel", request.channel)
    writer.text("device", device)
    writer.text("topic", request.topic)
    writer.text("pushType", request.pushType)
    writer.integer("priority", request.priority.flatMap { Int64($0) })
    writer.integer("expiration", request.expirationSeconds)
    writer.text("collapseID", request.collapseID)
    writer.text("apnsID", exchange.apnsID)
    writer.text("uniqueID", exchange.uniqueID)
    writer.integer("command", request.command.map(Int64.init))
    writer.integer("identifier", request.identifier.map(Int64.init))
    writePayload(to: &writer)
    writer.key("verdict")
    writeVerdict(to: &writer)
    writeRest(to: &writer)
    writer.text("curl", curl)
    writer.endObject()
  }

  /// Writes only what a list shows of the push, for readers that follow a thousand pushes per second.
  func writeBrief(to writer: inout JSONWriter) {
    writer.beginObject()
    writer.integer("number", Int64(clamping: number))
    writer.integer("receivedMilliseconds", request.receivedMilliseconds)
    writer.text("environment", request.environment.name)
    writer.text("channel", request.channel)
    writer.text("device", device)
    writer.text("topic", request.topic)
    writer.text("pushType", request.pushType)
    let presentation = (shown ?? preview)?.presentation
    if presentation?.title == nil, presentation?.body == nil {
      writer.text("payloadText", String(decoding: request.payload.prefix(200), as: UTF8.self))
    }
    writer.key("verdict")
    writeVerdict(to: &writer)
    writeRest(to: &writer)
    writer.endObject()
  }

  /// The member `violations`.
  func writeViolations(to writer: inout JSONWriter) {
    writer.key("violations")
    writer.beginArray()
    for violation in violations {
      writer.beginObject()
      writer.text("rule", violation.rule)
      writer.text("severity", violation.severity.rawValue)
      writer.text("message", violation.message)
      writer.text("path", violation.path)
      writer.endObject()
    }
    writer.endArray()
  }

  private func writeRest(to writer: inout JSONWriter) {
    writeViolations(to: &writer)
    writeStates(to: &writer)
    writer.key("shown")
    if let shown { shown.write(to: &writer) } else { writer.null() }
    writer.key("preview")
    if let preview { preview.write(to: &writer) } else { writer.null() }
    writer.key("activity")
    if let activity { activity.write(to: &writer) } else { writer.null() }
    writer.key("recipients")
    writer.beginArray()
    for recipient in recipients { recipient.write(to: &writer) }
    writer.endArray()
  }

  /// Removes the signature of a provider token, so that shown or logged values are not credentials.
  private static func harmless(_ header: ProviderRequest.Header) -> String {
    guard header.name == "\(HeaderName.authorization.text)" else { return header.value }
    guard let dot = header.value.lastIndex(of: ".") else { return header.value }
    return header.value[...dot] + "…"
  }

  private func writePayload(to writer: inout JSONWriter) {
    let bytes = request.payload
    writer.integer("payloadBytes", Int64(bytes.count))
    writer.key("payload")
    writer.value((try? JSONValue(parsing: bytes.span)) ?? .null)
    if let text = String(validating: bytes, as: UTF8.self) {
      writer.text("payloadText", text)
    } else {
      writer.text("payloadText", String(decoding: bytes, as: UTF8.self))
      writer.text(
        "payloadBase64", String(decoding: Base64.encode(bytes.span), as: UTF8.self))
    }
  }

  private func writeVerdict(to writer: inout JSONWriter) {
    writer.beginObject()
    writer.integer("status", Int64(exchange.status))
    writer.key("accepted")
    writer.bool(exchange.isAccepted)
    writer.text("reason", exchange.reason)
    writer.text("explanation", exchange.explanation)
    writer.integer("timestampMilliseconds", exchange.timestampMilliseconds)
    writer.key("notes")
    writer.beginArray()
    for note in exchange.notes { writer.string(note) }
    writer.endArray()
    writer.text("fault", exchange.fault)
    writer.endObject()
  }

  private func writeStates(to writer: inout JSONWriter) {
    writer.key("states")
    writer.beginArray()
    for state in states {
      writer.beginObject()
      writer.text("state", "\(state.state.label)")
      writer.integer("atMilliseconds", state.milliseconds)
      writer.text("cause", state.cause.isEmpty ? nil : state.cause)
      writer.key("terminal")
      writer.bool(state.state.isTerminal)
      writer.endObject()
    }
    writer.endArray()
  }
}
