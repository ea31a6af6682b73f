import ApusModel

/// The requirements of RFC 9113, section 8, on the form of a request.
///
/// A request that violates a MUST is malformed and its stream is reset; the application answers everything else, with
/// a reason of its protocol. A request with neither `:authority` nor `host` is not malformed: four libraries in use
/// send such requests to APNs.
struct RequestShape: Sendable {
  private static let method: UInt8 = 1
  private static let scheme: UInt8 = 2
  private static let path: UInt8 = 4
  private static let authority: UInt8 = 8
  private static let required = method | scheme | path

  private var pseudoFields: UInt8 = 0
  private var sawRegularField = false
  /// The announced length of the body; -1 if absent.
  private var contentLength = -1
  /// RFC 9113, section 6.5.2: the bytes of all names and values, and 32 for each field.
  private(set) var listBytes = 0

  init() {}

  /// Adds a field of the header section; false if it makes the request malformed.
  mutating func add(_ field: borrowing HeaderField) -> Bool {
    listBytes += field.byteCount
    guard field.isFine else { return false }
    guard let listed = field.listed else {
      sawRegularField = true
      return true
    }
    switch listed {
    case .method: return addPseudo(Self.method)
    case .scheme: return addPseudo(Self.scheme)
    case .path: return addPseudo(Self.path)
    case .authority: return addPseudo(Self.authority)
    case .status: return false
    case .contentLength:
      sawRegularField = true
      guard contentLength < 0, let length = FieldRules.number(field.value) else { return false }
      contentLength = length
      return true
    default:
      sawRegularField = true
      return true
    }
  }

  /// Section 8.3: pseudo-header fields come first, and each once.
  private mutating func addPseudo(_ field: UInt8) -> Bool {
    guard !sawRegularField, pseudoFields & field == 0 else { return false }
    pseudoFields |= field
    return true
  }

  /// Section 8.3.1: `:method`, `:scheme` and `:path` are all present. (CONNECT has neither of the last two; it is
  /// useless here, so it counts as malformed.)
  var isWhole: Bool { pseudoFields & Self.required == Self.required }

  /// Section 8.1.1: the body has the length in `content-length`, if present.
  func fits(bodyByteCount: Int) -> Bool { contentLength < 0 || contentLength == bodyByteCount }
}
