package codec

// Media is a media type of API objects.
type Media uint8

// Supported encodings. JSON is the zero value.
const (
	JSON Media = iota
	YAML
	Protobuf
)

// Values of the headers Content-Type and Accept.
const (
	JSONType     = "application/json"
	YAMLType     = "application/yaml"
	ProtobufType = "application/vnd.kubernetes.protobuf"
)

func (m Media) String() string {
	switch m {
	case YAML:
		return YAMLType
	case Protobuf:
		return ProtobufType
	}
	return JSONType
}
