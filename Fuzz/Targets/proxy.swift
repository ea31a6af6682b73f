import ApusModel
import ApusWire

// Headers of proxies: the outcome is known from a prefix on, and no later byte changes it.

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let bytes = input(start, count)
  let whole = ProxyHeader.read(bytes.span)
  switch whole {
  case .relayed(_, let byteCount), .direct(let byteCount):
    precondition(byteCount <= Limits.proxyHeaderBytes, "a header above the limit")
    precondition(byteCount <= bytes.count, "a header of bytes that have not come")
    check(bytes, completeAt: byteCount, whole)
  case .incomplete:
    precondition(bytes.count < Limits.proxyHeaderBytes, "a header that never ends")
    check(bytes, completeAt: bytes.count + 1, whole)
  case .malformed:
    let prefix = firstOutcome(bytes)
    precondition(prefix == whole, "a fault that later bytes change")
  }
  return 0
}

/// Every shorter prefix is incomplete, and every longer one says the same.
func check(_ bytes: [UInt8], completeAt end: Int, _ whole: ProxyHeader.Reading) {
  for count in 0...min(bytes.count, 300) {
    let part = Array(bytes[..<count])
    let expected = count < end ? ProxyHeader.Reading.incomplete : whole
    precondition(ProxyHeader.read(part.span) == expected, "a split changes the outcome")
  }
}

func firstOutcome(_ bytes: [UInt8]) -> ProxyHeader.Reading {
  for count in 0...bytes.count {
    let part = Array(bytes[..<count])
    let outcome = ProxyHeader.read(part.span)
    if outcome != .incomplete { return outcome }
  }
  preconditionFailure("only the whole is malformed")
}
