/// Copies libFuzzer's input into exactly sized memory, so that the sanitizer detects a read past its end.
func input(_ start: UnsafePointer<UInt8>?, _ count: Int) -> [UInt8] {
  Array(UnsafeBufferPointer(start: start, count: count))
}
