export { memoryEvents } from './events.js'
export { pauseStream } from './pause.js'
export { sealedSessions } from './session.js'
export { sessionControllerTests } from './controller-tests.js'

export type { EventStore, LegacyOptions, LegacyVersion, Session, SessionController, StoredEvent } from '../../types/legacy.js'
