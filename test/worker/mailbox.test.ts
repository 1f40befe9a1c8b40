import { test } from 'tap'
import { Mailbox } from '../../lib/worker/mailbox.js'

/** Whether a promise has settled once all that could settle it has run. */
async function isSettled (promise: Promise<unknown>): Promise<boolean> {
  let settled = false
  promise.then(() => { settled = true }, () => { settled = true })
  await new Promise(resolve => { setImmediate(resolve) })
  return settled
}

test('messages come out in the order in which they were put in', async t => {
  const mailbox = new Mailbox<string>()
  mailbox.put('a')
  mailbox.put('b')
  t.equal(mailbox.length, 2)
  t.equal(mailbox.take(), 'a')
  mailbox.put('c')
  t.equal(mailbox.take(), 'b')
  t.equal(mailbox.take(), 'c')
  t.equal(mailbox.length, 0)
})

test('an empty mailbox gives nothing', async t => {
  t.equal(new Mailbox<string>().take(), undefined)
})

test('a ticket is waited for until its message has been handled, and not just taken', async t => {
  const mailbox = new Mailbox<string>()
  const first = mailbox.whenHandled(mailbox.put('a'))
  const second = mailbox.whenHandled(mailbox.put('b'))

  mailbox.take()
  t.notOk(await isSettled(first), 'taken')
  mailbox.handled()
  await first
  t.notOk(await isSettled(second), 'the next one is still queued')
  mailbox.take()
  mailbox.handled()
  await second
})

test('a ticket of a message that has been handled is not waited for', async t => {
  const mailbox = new Mailbox<string>()
  const ticket = mailbox.put('a')
  mailbox.take()
  mailbox.handled()
  await mailbox.whenHandled(ticket)
  t.pass('resolved')
})

test('messages that nobody waits for are counted as well', async t => {
  const mailbox = new Mailbox<string>()
  mailbox.put('a')
  const second = mailbox.whenHandled(mailbox.put('b'))
  mailbox.take()
  mailbox.handled()
  t.notOk(await isSettled(second))
  mailbox.take()
  mailbox.handled()
  await second
})

test('the oldest message can be dropped: it is done with, and the one that is being handled is not', async t => {
  const mailbox = new Mailbox<string>()
  const [first, second, third] = ['a', 'b', 'c'].map(async message => { await mailbox.whenHandled(mailbox.put(message)) })
  t.equal(mailbox.take(), 'a')
  mailbox.dropOldest()
  await second
  t.notOk(await isSettled(first as Promise<void>), 'a is being handled')
  t.notOk(await isSettled(third as Promise<void>), 'c is queued')
  mailbox.handled()
  await first
  t.equal(mailbox.take(), 'c')
  mailbox.handled()
  await third
})

test('a message that was dropped before anybody asked is not waited for', async t => {
  const mailbox = new Mailbox<string>()
  const ticket = mailbox.put('a')
  mailbox.dropOldest()
  await mailbox.whenHandled(ticket)
  t.equal(mailbox.length, 0)
})

test('a second handled() says nothing', async t => {
  const mailbox = new Mailbox<string>()
  mailbox.put('a')
  const second = mailbox.whenHandled(mailbox.put('b'))
  mailbox.take()
  mailbox.handled()
  mailbox.handled()
  t.notOk(await isSettled(second))
  t.equal(mailbox.close(), 1)
  await second
})

test('the close tells how many messages are left, and wakes all that wait for them', async t => {
  const mailbox = new Mailbox<string>()
  const tickets = ['a', 'b', 'c'].map(async message => { await mailbox.whenHandled(mailbox.put(message)) })
  mailbox.take()
  t.equal(mailbox.close(), 2, 'the one that was taken is not left')
  await Promise.all(tickets)
  t.equal(mailbox.length, 0)
  t.equal(mailbox.take(), undefined)
})
