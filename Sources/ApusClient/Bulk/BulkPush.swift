/// A push of a bulk send, which keeps all of its pushes alive: to pass one on costs no count of references, of which
/// there would be a dozen for each.
@safe struct BulkPush: @unchecked Sendable {
  private let reference: Unmanaged<PendingSend>

  init(_ send: PendingSend) { unsafe reference = Unmanaged.passUnretained(send) }

  var send: PendingSend { unsafe reference.takeUnretainedValue() }
}
