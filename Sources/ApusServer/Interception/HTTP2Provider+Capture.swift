import ApusCore
import ApusHTTP2
import ApusModel

// A provider's request as the interceptor sees it.

extension HTTP2Provider {
  func captured(_ request: HTTP2Request, _ interception: Interception) -> ProviderRequest {
    var captured = ProviderRequest(
      connection: interception.connection, receivedMilliseconds: context.wallMilliseconds)
    captured.method = request.value(.method).text
    captured.path = request.value(.path).text
    captured.headers = session.takeFields(of: request).map { .init($0.name, $0.value) }
    if request.isBroadcast {
      captured.channel = text(.apnsChannelID, of: request) ?? ""
      captured.topic = Self.broadcastTopic(request.value(.path))
    } else {
      captured.token = Self.token(captured.path)
      captured.topic = text(.apnsTopic, of: request) ?? sender.defaultTopicText
    }
    captured.pushType = text(.apnsPushType, of: request)
    captured.priority = text(.apnsPriority, of: request)
    captured.collapseID = text(.apnsCollapseID, of: request)
    captured.expirationSeconds = text(.apnsExpiration, of: request).flatMap { Int64($0) }
    captured.payload = request.bodyBytes.copied()
    captured.credential = interception.connection.credential
    if let token = providerToken(of: request, interception) {
      captured.credential = token.credential
      captured.tokenIssuedAtSeconds = token.issuedAtSeconds
    }
    return captured
  }

  private func text(_ name: HeaderName, of request: HTTP2Request) -> String? {
    request.fields.contains(name) ? request.value(name).text : nil
  }

  /// The last segment of `/3/device/…`.
  private static func token(_ path: String) -> String {
    guard path.hasPrefix("/3/device/") else { return "" }
    return String(path.dropFirst("/3/device/".count))
  }

  /// The topic under which devices get the broadcast; nil if the path is not `/4/broadcasts/apps/…`.
  private static func broadcastTopic(_ path: Span<UInt8>) -> String? {
    BroadcastAdmission.bundle(in: path).map { bundle in
      "\(path.extracting(bundle).text)\(TopicSuffix.liveActivity.text)"
    }
  }

  /// The claims of the request's provider token, unverified. Nil if the provider uses a certificate or sends no token.
  func providerToken(
    of request: HTTP2Request, _ interception: Interception
  ) -> Interception.ReadToken? {
    guard !sender.hasCertificate else { return nil }
    let field = request.value(.authorization)
    guard case .token(let range) = BearerField(field) else { return nil }
    return interception.readToken(field, range)
  }
}

extension ProviderConnection {
  var defaultTopicText: String? {
    defaultTopic.map { String(decoding: $0, as: UTF8.self) }
  }
}
