package signin

import "github.com/zoomies-fleet/zoomies/controller/auth"

// SetupSetting is where the setup token's hash is kept.
const SetupSetting = setupSetting

// CountChecks has check called with each stored hash that a password is compared with.
func (s *Service) CountChecks(check func(hash string)) {
	s.check = func(hash, password string) error {
		check(hash)
		return auth.VerifyPassword(hash, password)
	}
}
