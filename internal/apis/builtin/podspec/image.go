package podspec

import "strings"

// maxPath is the maximum length of an image path that registries accept.
const maxPath = 255

// isLatest reports whether an image name has the tag latest, or neither a tag nor a digest. It returns false
// for invalid names, which validation or the kubelet rejects.
//
//	image  = [ domain "/" ] path [ ":" tag ] [ "@" digest ]
//	domain = host [ ":" port ]
//	path   = component { "/" component }
func isLatest(image string) bool {
	name, digest, digested := strings.Cut(image, "@")
	if digested && !isDigest(digest) || isHex(image, 64) { // an image ID has 64 hexadecimal digits
		return false
	}
	domain, rest := splitDomain(name)
	path, tag, tagged := strings.Cut(rest, ":")
	if !isPath(path) || domain != "" && !isDomain(domain) || pathLength(domain, path) > maxPath {
		return false
	}
	if !tagged {
		return !digested
	}
	return tag == "latest"
}

// splitDomain splits off the first component of a name if it is a host, that is, if it is localhost or
// contains a dot, a colon or a capital letter.
func splitDomain(name string) (domain, rest string) {
	first, rest, ok := strings.Cut(name, "/")
	if ok && (strings.ContainsAny(first, ".:") || first == "localhost" || strings.ToLower(first) != first) {
		return first, rest
	}
	return "", name
}

// pathLength returns the length of an image path. It includes the prefix "library/", which the names of
// official images omit.
func pathLength(domain, path string) int {
	if (domain == "" || domain == "docker.io" || domain == "index.docker.io") && !strings.Contains(path, "/") {
		return len("library/") + len(path)
	}
	return len(path)
}

func isDomain(domain string) bool {
	host, port := domain, ""
	if i := strings.LastIndexByte(domain, ':'); i >= 0 && !strings.HasSuffix(domain, "]") {
		host, port = domain[:i], domain[i+1:]
		if port == "" || !all(port, isDigit) {
			return false
		}
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		return ok && inner != "" && all(inner, func(c byte) bool { return isHexDigit(c) || 'A' <= c && c <= 'F' || c == ':' })
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' ||
			!all(label, func(c byte) bool { return isAlphanumeric(c) || 'A' <= c && c <= 'Z' || c == '-' }) {
			return false
		}
	}
	return true
}

func isPath(path string) bool {
	for component := range strings.SplitSeq(path, "/") {
		if !isComponent(component) {
			return false
		}
	}
	return true
}

// isComponent reports whether s consists of lower-case letters and digits, with separators between them. A
// separator is a dot, one or two underscores, or any number of dashes.
func isComponent(s string) bool {
	separator := 0 // index of the first byte of the current separator
	for i := range len(s) {
		if !isAlphanumeric(s[i]) {
			continue
		}
		if i > 0 && separator == 0 {
			return false // s starts with a separator
		}
		if !isSeparator(s[separator:i]) {
			return false
		}
		separator = i + 1
	}
	return separator > 0 && separator == len(s)
}

func isSeparator(s string) bool {
	switch s {
	case "", ".", "_", "__":
		return true
	}
	return all(s, func(c byte) bool { return c == '-' })
}

// isDigest reports whether s is a digest that uses a supported algorithm.
func isDigest(digest string) bool {
	algorithm, hash, _ := strings.Cut(digest, ":")
	switch algorithm {
	case "sha256":
		return isHex(hash, 64)
	case "sha384":
		return isHex(hash, 96)
	case "sha512":
		return isHex(hash, 128)
	}
	return false
}

func isHex(s string, length int) bool { return len(s) == length && all(s, isHexDigit) }

func all(s string, is func(byte) bool) bool {
	for i := range len(s) {
		if !is(s[i]) {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool        { return '0' <= c && c <= '9' }
func isHexDigit(c byte) bool     { return isDigit(c) || 'a' <= c && c <= 'f' }
func isAlphanumeric(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'z' }
