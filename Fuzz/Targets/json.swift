import ApusModel
import ApusWire

// The payload scan and the tree reader share no code: both must accept the same texts and find the same values.

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let bytes = input(start, count)
  let scan = try? PayloadScan(bytes.span)
  let tree = try? JSONValue(parsing: bytes.span)
  precondition((scan != nil) == (tree?.object != nil), "the scan and the reader disagree")
  guard let tree else { return 0 }
  if let scan { precondition(scan == summary(tree), "the scan finds other values than the reader") }
  let written = tree.bytes
  guard let again = try? JSONValue(parsing: written.span) else {
    preconditionFailure("written JSON cannot be read")
  }
  precondition(again.bytes == written, "JSON changes in a round trip")
  return 0
}

/// What the scan must find, according to the tree.
func summary(_ tree: JSONValue) -> PayloadScan {
  func has(_ value: JSONValue?) -> Bool { value != nil && value != .null }
  guard var found = try? PayloadScan(Array("{}".utf8).span) else {
    preconditionFailure("an empty object is rejected")
  }
  found.hasMDM = has(tree["mdm"])
  guard let aps = tree["aps"], aps.object != nil else { return found }
  found.hasAPS = true
  found.hasAlert = has(aps["alert"])
  found.hasBadge = has(aps["badge"])
  found.hasSound = has(aps["sound"])
  found.contentAvailable = aps["content-available"]?.number == 1
  return found
}
