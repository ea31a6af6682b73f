internal import CShims

/// The AEADs that the connections of a worker share, one per suite and direction, created on first use.
@safe final class RecordAEADs {
  private let contexts: UnsafeMutablePointer<OpaquePointer?>
  private static let count = 2 * RecordSuite.allCases.count

  init() {
    unsafe contexts = .allocate(capacity: Self.count)
    unsafe contexts.initialize(repeating: nil, count: Self.count)
  }

  deinit {
    for index in 0..<Self.count { unsafe apus_aead_free(contexts[index]) }
    unsafe contexts.deallocate()
  }

  /// Nil if out of memory, or if OpenSSL lacks this cipher.
  func context(_ suite: RecordSuite, seals: Bool) -> OpaquePointer? {
    let index = 2 * Int(suite.rawValue) + (seals ? 1 : 0)
    if let context = unsafe contexts[index] { return unsafe context }
    unsafe contexts[index] = apus_aead_new(suite.shim, seals)
    return unsafe contexts[index]
  }

  /// Wipes the keys of the last records' connections.
  func forgetKeys() {
    for index in 0..<Self.count {
      if let context = unsafe contexts[index] { unsafe apus_aead_forget(context) }
    }
  }
}
