/// The bytes that libFuzzer hands to a target, in memory of their own so that a read past their end is found.
func input(_ start: UnsafePointer<UInt8>?, _ count: Int) -> [UInt8] {
  Array(UnsafeBufferPointer(start: start, count: count))
}
