/// An unretained reference to a push, whose bulk send keeps it alive. Passing one on costs no reference counting, which
/// would otherwise happen about a dozen times for each push.
@safe struct BulkPush: @unchecked Sendable {
  private let reference: Unmanaged<PendingSend>

  init(_ send: PendingSend) { unsafe reference = Unmanaged.passUnretained(send) }

  var send: PendingSend { unsafe reference.takeUnretainedValue() }
}
