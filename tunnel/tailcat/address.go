package tailcat

// PublicOf is the public key of the server that an address leads to: what AdmitToRelay is told of a gateway that has said its address.
func PublicOf(address string) (string, error) {
	info, err := parseAddress(address)
	if err != nil {
		return "", err
	}
	return info.ServerPublic.String(), nil
}
