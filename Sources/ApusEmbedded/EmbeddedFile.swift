internal import CEmbedded

/// A file of this repository that the programs contain.
package struct EmbeddedFile: Sendable {
  /// Without a folder.
  package let name: String
  package let bytes: [UInt8]

  private init(_ file: embedded_file) {
    name = unsafe String(cString: file.name)
    bytes = unsafe [UInt8](UnsafeBufferPointer(start: file.bytes, count: file.length))
  }

  /// The files of the console's page.
  package static let console = unsafe UnsafeBufferPointer(
    start: embedded_console, count: embedded_console_count
  ).map { unsafe EmbeddedFile($0) }

  /// The OpenAPI description of the administration API.
  package static let adminAPI = unsafe EmbeddedFile(embedded_admin_api)

  /// The OpenAPI description of the API of `apus dev`.
  package static let devAPI = unsafe EmbeddedFile(embedded_dev_api)

  /// The tables and statements of the store in PostgreSQL.
  package static let postgresql = unsafe EmbeddedFile(embedded_postgresql)
}
