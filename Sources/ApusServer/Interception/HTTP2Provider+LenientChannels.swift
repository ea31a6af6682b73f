import ApusCore
import ApusDirectory
import ApusHTTP2
import ApusLog
import ApusLoop
import ApusModel
import ApusTrust

// Requests about channels, broadcasts included, of the development service.

extension HTTP2Provider {
  /// Decides on a request of the channel management API. The inbox has no such requests, so the log says which were
  /// rejected.
  func manage(_ request: HTTP2Request, _ interception: Interception) {
    guard interception.isLenient else { return decide(request) }
    decideOnChannelLeniently(
      request, InterceptedRequest(captured(request, interception), nil))
  }

  func logRefusal(of request: HTTP2Request, _ refusal: Refusal) {
    context.log(
      .warning, "channel request rejected", .text("peer", connection.peer.description),
      .text("method", request.value(.method).text), .text("path", request.value(.path).text),
      .text("reason", refusal.reason.text.description),
      .text(
        "explanation",
        refusal.explanation.text(
          fields: request.fields, directory: context.trust.directory)))
  }

  /// Accepts any credential that can be parsed, and any app.
  ///
  /// - Parameter isAsked: Whether the interceptor was asked for the app.
  func decideOnChannelLeniently(
    _ request: HTTP2Request, _ intercepted: InterceptedRequest, isAsked: Bool = false
  ) {
    do throws(Refusal) {
      try judgeOnChannel(request, request.content, intercepted, isAsked: isAsked)
    } catch {
      refuse(request, error)
    }
  }

  private func judgeOnChannel(
    _ request: HTTP2Request, _ content: borrowing RequestRecord,
    _ intercepted: InterceptedRequest, isAsked: Bool
  ) throws(Refusal) {
    if managesChannels {
      let head = try ChannelAdmission.examineHead(
        content.fields, headerListTooLarge: request.headerListTooLarge)
      let grant = try authenticateLeniently(request, content, intercepted)
      guard let app = try app(head.bundle, request, intercepted, isAsked: isAsked) else { return }
      try forgiving(grant, of: app, request, intercepted) { (grant) throws(Refusal) in
        try manage(request, request.content, head, grant)
      }
    } else {
      let bundle = try BroadcastAdmission.examineHead(
        content.fields, headerListTooLarge: request.headerListTooLarge)
      let grant = try authenticateLeniently(request, content, intercepted)
      guard let app = try app(bundle, request, intercepted, isAsked: isAsked) else { return }
      try forgiving(grant, of: app, request, intercepted) { (grant) throws(Refusal) in
        try judgeBroadcast(request, request.content, of: bundle, grant)
      }
    }
  }

  /// The app of the path. Nil if the interceptor was asked for it: the request waits for the answer.
  private func app(
    _ bundle: Range<Int>, _ request: HTTP2Request, _ intercepted: InterceptedRequest,
    isAsked: Bool
  ) throws(Refusal) -> App? {
    let text = request.value(.path).extracting(bundle)
    do throws(Refusal) {
      return try ChannelAdmission.registered(text, in: context.trust.directory)
    } catch {
      guard case .channel(.bundleUnknown) = error.explanation, !isAsked,
        let interception = intercepting
      else { throw error }
      report(error.explanation, request.content, intercepted)
      intercepted.held = request
      let key = Self.key(request)
      interception.keep(intercepted, key)
      interception.adopt(app: text.text, key)
      return nil
    }
  }

  func adoptedApp(_ isAdded: Bool, _ key: UInt32) {
    guard let intercepted = intercepting?.requests[key], let request = release(intercepted) else {
      return
    }
    if managesChannels { _ = intercepting?.take(key) }
    decideOnChannelLeniently(request, intercepted, isAsked: true)
    connection.markDirty()
  }

  /// Judges with what the credential grants, or else, if the strict service would reject that, with everything.
  private func forgiving(
    _ grant: Grant?, of app: App, _ request: HTTP2Request, _ intercepted: InterceptedRequest,
    _ judge: (Grant) throws(Refusal) -> Void
  ) throws(Refusal) {
    let everything = Grant(team: app.team, scope: .team)
    do throws(Refusal) {
      try judge(grant ?? everything)
    } catch {
      guard error.explanation.isForgivable else { throw error }
      report(error.explanation, request.content, intercepted)
      try judge(everything)
    }
  }
}
