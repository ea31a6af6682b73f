internal import ApusModel
internal import CShims

/// A TLS 1.3 connection after its handshake, without OpenSSL's object: RFC 8446, section 5, over AEADs that the
/// worker's connections share.
///
/// This object, about 300 bytes, is the whole TLS state of a quiet connection. Anything invalid ends the connection
/// with the alert that the RFC requires; nothing is interpreted before it is authenticated.
@safe final class RecordSide {
  enum Phase: UInt8 {
    case open
    /// The peer sent close_notify. It can still receive.
    case closedByPeer
    case failed
  }

  /// Data that is only needed on request, allocated separately: a quiet device needs none of it.
  final class Facts {
    var peerCertificateDER: [UInt8]?
    var session: TLSSession?
    var receivedTicketCount = 0
  }

  /// RFC 8446, section 5.1.
  static let headerBytes = 5
  /// The largest TLSCiphertext.length. RFC 8446, section 5.2.
  static let protectedBytes = 16384 + 256
  /// The largest TLSInnerPlaintext: the content and its type. RFC 8446, section 5.4.
  static let innerBytes = 16384 + 1
  /// Consecutive records without application data beyond which the connection ends: they only cause work. This is
  /// OpenSSL's limit for empty ones.
  static let idleRecords: UInt8 = 32
  /// Records under one key: below the 2^24.5 of RFC 8446, section 5.5, for AES-GCM and full records.
  static let recordsPerKey: UInt64 = 1 << 24

  /// RFC 8446, section 5.1. Protected records have no other types.
  enum Content {
    static let alert: UInt8 = 21
    static let handshake: UInt8 = 22
    static let applicationData: UInt8 = 23
  }

  let isServer: Bool
  let suite: RecordSuite
  let isResumed: Bool
  var phase = Phase.open
  var isClosed = false
  /// Whether the peer requested new keys from us. RFC 8446, section 4.6.3: before the next application data.
  var owesKeyUpdate = false
  let protocolPlace: UInt8
  var idleCount: UInt8 = 0
  /// Bytes of `message` received.
  var messageCount: UInt8 = 0
  /// Why the connection ended: an alert that was sent or received; see `failure`.
  var ending = Ending.none
  /// The end that follows data which must be read first.
  private(set) var pending = Ending.none
  /// Remaining bytes of a ticket that is skipped.
  var skippedCount: UInt32 = 0
  /// The beginning of an incomplete handshake message, the last byte lowest: at most the 5 bytes of a KeyUpdate.
  var message: UInt64 = 0
  private(set) var facts: Facts?
  /// The part of a record received so far, from `malloc`.
  private var partial: UnsafeMutablePointer<UInt8>?
  private var partialCount = 0
  var hasPartialRecord: Bool { unsafe partial != nil }
  var reading: apus_record_keys
  var writing: apus_record_keys

  enum Ending: Equatable {
    case none
    case close
    case fault(RecordFault)
    case alert(UInt8)
    case truncated
  }

  /// - Parameter protocolIndex: The index in the list of application protocols.
  /// - Returns: Nil if OpenSSL is out of memory.
  init?(
    _ traffic: UnsafePointer<apus_traffic>, suite: RecordSuite, isResumed: Bool,
    protocolIndex: Int?,
    facts: Facts?
  ) {
    self.suite = suite
    self.isResumed = isResumed
    self.facts = facts
    unsafe isServer = traffic.pointee.is_server
    protocolPlace = protocolIndex.map { UInt8(clamping: $0) } ?? .max
    (reading, writing) = (apus_record_keys(), apus_record_keys())
    guard unsafe apus_keys_begin(&reading, suite.shim, traffic, !isServer),
      unsafe apus_keys_begin(&writing, suite.shim, traffic, isServer)
    else { return nil }
  }

  /// Continues a dormant connection; see `DormantTLS`. If OpenSSL is out of memory, the connection has ended.
  init(_ dormant: borrowing DormantTLS, isServer: Bool) {
    suite = dormant.suite
    isResumed = dormant.isResumed
    self.isServer = isServer
    protocolPlace = dormant.protocolPlace
    idleCount = dormant.idleCount
    (reading, writing) = (apus_record_keys(), apus_record_keys())
    guard dormant.unpack(&reading, &writing) else {
      phase = .failed
      ending = .fault(.internalError)
      return
    }
  }

  deinit {
    wipe()
    unsafe free(partial)
  }

  var isEstablished: Bool { phase != .failed }

  var protocolIndex: Int? { protocolPlace == .max ? nil : Int(protocolPlace) }

  func forgetPeerCertificate() {
    if facts?.session == nil { facts = nil } else { facts?.peerCertificateDER = nil }
  }

  func wipe() {
    unsafe apus_wipe(&reading, MemoryLayout<apus_record_keys>.size)
    unsafe apus_wipe(&writing, MemoryLayout<apus_record_keys>.size)
  }

  // MARK: Reading

  /// Returns the data of records that arrived together in one piece, up to 16 KiB, because callers process small
  /// records in batches.
  func read(_ buffers: TLSBuffers) -> TLSConnection.ReadResult {
    if pending != .none { settle(buffers) }
    guard phase == .open else { return over(buffers) }
    var count = 0
    do throws(RecordFault) {
      while pending == .none, let inner = try openRecord(buffers, behind: count) {
        count += try unsafe receive(
          UnsafeRawBufferPointer(rebasing: buffers.plaintext[count..<(count + inner)]))
      }
    } catch {
      pending = .fault(error)
    }
    // Data before the end is read first, and can still be answered.
    if count > 0 {
      return unsafe .plaintext(UnsafeRawBufferPointer(rebasing: buffers.plaintext[..<count]))
    }
    if pending == .none { return .needsInput }
    settle(buffers)
    return over(buffers)
  }

  /// Processes the content of a record.
  ///
  /// - Returns: Bytes of application data.
  private func receive(_ inner: UnsafeRawBufferPointer) throws(RecordFault) -> Int {
    // RFC 8446, section 5.4: zeros up to the type are padding.
    guard let place = unsafe inner.lastIndex(where: { $0 != 0 }) else { throw .unexpectedMessage }
    let content = unsafe UnsafeRawBufferPointer(rebasing: inner[..<place])
    switch unsafe inner[place] {
    case Content.applicationData:
      guard messageCount == 0, skippedCount == 0 else { throw .unexpectedMessage }
      if place == 0 { try noteIdle() } else { idleCount = 0 }
      return place
    case Content.handshake:
      try noteIdle()
      try unsafe receiveHandshake(content)
    case Content.alert: try unsafe receiveAlert(content)
    default: throw .unexpectedMessage
    }
    return 0
  }

  func endOfInput() -> TLSConnection.ReadResult {
    if phase == .open {
      if pending == .none { pending = .truncated }
      settle(nil)
    }
    return phase == .closedByPeer ? .closedByPeer : .failed(failure)
  }

  /// Ends the connection, or the peer's half of it.
  ///
  /// - Parameter buffers: The output for a fault's alert; nil if it cannot be sent.
  private func settle(_ buffers: TLSBuffers?) {
    let ending = pending
    pending = .none
    if ending == .close {
      phase = .closedByPeer
      return
    }
    if case .fault(let fault) = ending, let buffers, !isClosed {
      _ = seal(Content.alert, [2, fault.rawValue], buffers)
    }
    phase = .failed
    self.ending = ending
    wipe()
  }

  private func over(_ buffers: TLSBuffers) -> TLSConnection.ReadResult {
    buffers.dropInput()
    unsafe free(partial)
    unsafe partial = nil
    return phase == .closedByPeer ? .closedByPeer : .failed(failure)
  }

  var failure: TLSError {
    switch ending {
    case .fault(let fault): fault.error
    case .alert(let code): .alertReceived(code)
    case .none, .close, .truncated: .truncated
    }
  }

  private func noteIdle() throws(RecordFault) {
    idleCount += 1
    guard idleCount <= Self.idleRecords else { throw .unexpectedMessage }
  }

  /// Decrypts the next record into the buffers' plaintext, after `count` bytes.
  ///
  /// - Returns: Bytes of TLSInnerPlaintext; nil if there is no complete record, or no room for it.
  private func openRecord(
    _ buffers: TLSBuffers, behind count: Int
  ) throws(RecordFault) -> Int? {
    let pump = unsafe buffers.pump
    if unsafe partial == nil {
      let available = unsafe pump.pointee.input_count
      guard available > 0, let record = unsafe pump.pointee.input else { return nil }
      if available >= Self.headerBytes {
        let whole = Self.headerBytes + (try unsafe Self.bodyBytes(record))
        let inner = whole - Self.headerBytes - Int(apus_tag_bytes)
        if count > 0, count + inner > Self.innerBytes { return nil }
        if whole <= available {
          unsafe pump.pointee.input = record + whole
          unsafe pump.pointee.input_count = available - whole
          return try unsafe open(record, whole - Self.headerBytes, buffers, behind: count)
        }
      }
    }
    guard let whole = try gather(buffers), let record = unsafe partial else { return nil }
    defer {
      unsafe free(record)
      unsafe partial = nil
      partialCount = 0
    }
    return try unsafe open(
      UnsafePointer(record), whole - Self.headerBytes, buffers, behind: count)
  }

  /// Appends input to a partial record.
  ///
  /// - Returns: Bytes of the record, header included, once it is complete.
  private func gather(_ buffers: TLSBuffers) throws(RecordFault) -> Int? {
    if partialCount < Self.headerBytes {
      unsafe partial = try resized(partial, Self.headerBytes)
      guard take(Self.headerBytes, buffers) else { return nil }
    }
    guard let header = unsafe partial else { return nil }
    let whole = Self.headerBytes + (try unsafe Self.bodyBytes(UnsafePointer(header)))
    if partialCount == Self.headerBytes { unsafe partial = try resized(header, whole) }
    return take(whole, buffers) ? whole : nil
  }

  private func resized(
    _ memory: UnsafeMutablePointer<UInt8>?, _ count: Int
  ) throws(RecordFault) -> UnsafeMutablePointer<UInt8> {
    guard let resized = unsafe realloc(memory, count) else { throw .internalError }
    return unsafe resized.assumingMemoryBound(to: UInt8.self)
  }

  /// Returns whether `partial` then has `count` bytes.
  private func take(_ count: Int, _ buffers: TLSBuffers) -> Bool {
    let pump = unsafe buffers.pump
    let taken = unsafe min(count - partialCount, pump.pointee.input_count)
    if taken > 0, let input = unsafe pump.pointee.input, let partial = unsafe partial {
      unsafe UnsafeMutableRawPointer(partial + partialCount)
        .copyMemory(from: input, byteCount: taken)
      unsafe pump.pointee.input = input + taken
      unsafe pump.pointee.input_count -= taken
      partialCount += taken
    }
    return partialCount == count
  }

  /// The length announced by a header. RFC 8446, section 5.2: the version is ignored; it is authenticated with the
  /// rest.
  private static func bodyBytes(_ header: UnsafePointer<UInt8>) throws(RecordFault) -> Int {
    guard unsafe header[0] == Content.applicationData else { throw .unexpectedMessage }
    let count = unsafe Int(header[3]) << 8 | Int(header[4])
    guard count <= protectedBytes else { throw .recordOverflow }
    return count
  }

  private func open(
    _ record: UnsafePointer<UInt8>, _ count: Int, _ buffers: TLSBuffers, behind place: Int
  ) throws(RecordFault) -> Int {
    guard let context = unsafe buffers.aeads.context(suite, seals: false) else {
      throw .internalError
    }
    guard let target = unsafe buffers.plaintext.baseAddress?.assumingMemoryBound(to: UInt8.self),
      unsafe apus_aead_open(
        context, &reading, record, record + Self.headerBytes, count, target + place)
    else { throw .badRecordMAC }
    let inner = count - Int(apus_tag_bytes)
    guard inner <= Self.innerBytes else { throw .recordOverflow }
    return inner
  }

  /// RFC 8446, section 6: the level is ignored. Section 5.1: not fragmented, not coalesced, not empty.
  private func receiveAlert(_ content: UnsafeRawBufferPointer) throws(RecordFault) {
    guard content.count == 2 else {
      throw content.count == 0 ? .unexpectedMessage : .decodeError
    }
    switch unsafe content[1] {
    case 0: pending = .close  // close_notify
    case 90: try noteIdle()  // user_canceled: a close_notify is to follow
    case let code: pending = .alert(code)
    }
  }

  /// The peer has updated its keys.
  func receiveKeyUpdate(isAnswerWanted: Bool) throws(RecordFault) {
    guard unsafe apus_keys_update(&reading, suite.shim) else { throw .internalError }
    if isAnswerWanted { owesKeyUpdate = true }
  }
}
