import CNGHTTP2

let endStream: UInt8 = 0x1

/// The header of a frame: the first member of each variant of the union.
///
/// Read through a raw pointer, since the importer copies the whole union to get at a member.
func frameHeader(_ frame: UnsafePointer<nghttp2_frame>) -> nghttp2_frame_hd {
  unsafe UnsafeRawPointer(frame).assumingMemoryBound(to: nghttp2_frame_hd.self).pointee
}

/// Whether a HEADERS frame opens a stream.
func isRequest(_ frame: UnsafePointer<nghttp2_frame>) -> Bool {
  let headers = unsafe UnsafeRawPointer(frame).assumingMemoryBound(to: nghttp2_headers.self)
  return unsafe headers.pointee.cat == NGHTTP2_HCAT_REQUEST
}
