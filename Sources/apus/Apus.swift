@main struct Apus { static func main() {} }
